// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the dialects ask of an answer's form, each in its words: a schema for the text, or that
// tools be called. Pure.

#include <string_view>

#include "protocol/answer_request.hpp"
#include "protocol/wire/json.hpp"

namespace semantic::protocol {

/// How tools may be called.
enum class tool_use { when_wanted, never, always };

/// Sets the form and the number of calls of `request`, whose tools are parsed already. `only`: the
/// one tool that may be called; absent: any. Complains of `place` when it is not among the tools,
/// or when calls and a JSON text are asked for at once.
void set_tool_use(answer_request& request, tool_use use, bool several,
                  const std::optional<std::string>& only, const json_cursor& place);

/// The forms of other servers: guided_json, guided_regex, guided_choice, guided_grammar and
/// structured_outputs (vLLM), grammar and json_schema (llama.cpp). Complains where a request asks
/// for two forms at once, and of what there is no form for. `limits`: of a schema that is a string.
void parse_foreign_forms(const json_cursor& root, const request_limits& limits,
                         answer_request& request);

/// The whole text of the answer is JSON that satisfies `schema`; what of it no grammar can hold is
/// refused by the engine if it is strict, else left out and named in the reply. Complains when it
/// is no object.
void set_json_schema(answer_request& request, const json_cursor& schema, bool is_strict);

}  // namespace semantic::protocol
