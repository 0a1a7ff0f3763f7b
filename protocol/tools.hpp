// SPDX-License-Identifier: Apache-2.0
#pragma once
// The tools of a request, whose lists the dialects spell alike except for the place of a tool's
// fields. Pure. All of it complains of what it reads, as json_cursor does.

#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "engine/types/conversation.hpp"
#include "protocol/answer_request.hpp"
#include "protocol/wire/json.hpp"

namespace semantic::protocol {

/// Reads a tool's name, description, schema of arguments and `strict`. `schema_key`: the dialect's
/// name for the schema; `otherwise`: the schema of a tool that has none, null where it is required.
engine::tool_definition parse_function(const json_cursor& function, std::string_view schema_key,
                                       const char* otherwise, const request_limits& limits);

/// How a dialect writes one tool.
struct tool_form {
    /// Returns: nothing for a tool that is left out.
    std::function<std::optional<engine::tool_definition>(const json_cursor& item)> parse;
    /// Returns: where the tool's name is, for complaints.
    std::function<json_cursor(const json_cursor& item)> name_place;
};
/// Reads the list `tools` of the body. Complains where two tools have one name.
std::vector<engine::tool_definition> parse_tools(const json_cursor& root,
                                                 const request_limits& limits,
                                                 const tool_form& form);

}  // namespace semantic::protocol
