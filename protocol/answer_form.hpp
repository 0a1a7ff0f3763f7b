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

/// Sets which form the answer has and how many calls it may make. Requires: the tools of `request`
/// are parsed. `several`: more than one call is allowed; `only`: the one tool that may be called,
/// absent: any. Complains of `place` when `only` is not among the tools, or when the request wants
/// both calls and another form.
void set_tool_use(answer_request& request, tool_use use, bool several,
                  const std::optional<std::string>& only, const json_cursor& place);

/// Reads the fields with which clients of other servers ask for a form: guided_json, guided_regex,
/// guided_choice, guided_grammar and structured_outputs (vLLM), grammar and json_schema
/// (llama.cpp). Complains where a request asks for two forms, or for one that this server does not
/// have. `limits`: for a schema that is a string.
void parse_foreign_forms(const json_cursor& root, const request_limits& limits,
                         answer_request& request);

/// Makes the whole text of the answer JSON that satisfies `schema`. Keywords that no grammar can
/// enforce are refused by the engine if `is_strict`, else ignored and named in the reply. Complains
/// when the schema is no object.
void set_json_schema(answer_request& request, const json_cursor& schema, bool is_strict);

}  // namespace semantic::protocol
