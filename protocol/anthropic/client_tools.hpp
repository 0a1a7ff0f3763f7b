// SPDX-License-Identifier: Apache-2.0
#pragma once
// Tools that the vendor defines and the client runs: a request names their type alone, and a model
// of the vendor's knows their arguments. Other models get them written out here. Pure. Source: the
// vendor's tool reference (https://docs.anthropic.com/en/docs/agents-and-tools/tool-use).

#include <optional>
#include <string_view>

#include "engine/types/conversation.hpp"

namespace semantic::protocol::anthropic {

/// Returns: the definition of a tool of a type such as "bash_20250124", "text_editor_20250728" or
/// "memory_20250818"; an unknown later version gets the latest known definition. Nothing for any
/// other type.
std::optional<engine::tool_definition> client_tool(std::string_view type);

}  // namespace semantic::protocol::anthropic
