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

/// Reads a tool's name, description and `format`. A regular expression becomes a `pattern` of the
/// input; a grammar in another syntax goes into the description. `tool`: the object with these
/// fields; the grammar is in its `format`, or in `format.grammar`. Complains of what it reads, as
/// json_cursor does.
engine::tool_definition parse_text_tool(const json_cursor& tool, const request_limits& limits);

/// Returns: the text that such a tool is called with. `arguments_json`: {"input": TEXT}, or its
/// beginning, of which all complete characters are returned; any other arguments are returned
/// unchanged.
std::string read_text_input(std::string_view arguments_json);

}  // namespace semantic::protocol::openai
