// SPDX-License-Identifier: Apache-2.0
#pragma once
// Tools that take a text (type `custom` of both of the vendor's APIs): to the model, functions with
// one argument, `input`. Pure.

#include <string>
#include <string_view>

#include "engine/types/conversation.hpp"
#include "protocol/answer_request.hpp"
#include "protocol/wire/json.hpp"

namespace semantic::protocol::openai {

/// A tool's name, description and `format`. A regular expression becomes a `pattern` of the input;
/// a grammar in another syntax goes into the description. `tool`: what has these fields; those of a
/// grammar are in its `format`, or in `format.grammar`. Complains of what
/// it reads, as json_cursor does.
engine::tool_definition parse_text_tool(const json_cursor& tool, const request_limits& limits);

/// The text that such a tool is called with. `arguments_json`: {"input": TEXT}, or its beginning,
/// of which as much text is returned as there is; other arguments are returned as they are.
std::string read_text_input(std::string_view arguments_json);

}  // namespace semantic::protocol::openai
