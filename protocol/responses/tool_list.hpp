// SPDX-License-Identifier: Apache-2.0
#pragma once
// The tools of a Responses request: those of the body, and those that items bring later. Pure. All
// of it complains of what it reads, as json_cursor does.

#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "engine/types/conversation.hpp"
#include "protocol/history/parts.hpp"
#include "protocol/responses/request.hpp"
#include "protocol/responses/tool_names.hpp"
#include "protocol/wire/json.hpp"

namespace semantic::protocol::responses {

/// The name under which a model is offered the client's own search for tools.
inline constexpr std::string_view search_tool_name = "tool_search";

/// Whether a tool of this type is run by the client: a function, or a tool that takes a text.
bool is_own_tool(std::string_view type);

/// Reads the tools that a client runs. Those of the vendor's servers are left out.
class tool_list_reader {
  public:
    /// Fills what it is given; all of it must outlive the reader.
    tool_list_reader(const response_limits& limits, std::set<std::string>& text_tools,
                     tool_names& names, left_out_names& left_out)
        : limits_(limits), text_tools_(text_tools), names_(names), left_out_(left_out) {}

    /// Reads the list `tools` of the body. Tools with deferred loading wait until an item names
    /// them, if the client searches for tools itself; else they are in the prompt from the start.
    engine::tool_lists read(const json_cursor& root);
    /// Reads a list of tools in an item. It may repeat known tools.
    std::vector<engine::tool_definition> read_late(const json_cursor& list);
    /// Whether the client searches for tools.
    bool has_search() const noexcept { return has_search_; }

  private:
    struct found_tool {
        engine::tool_definition definition;
        bool is_deferred = false;
    };

    void reserve_name(const json_cursor& tool);
    void add(const json_cursor& tool);
    void add_namespace(const json_cursor& holder);
    void add_search(const json_cursor& tool);
    engine::tool_definition parse_definition(const json_cursor& tool, std::string_view type) const;
    void take(const json_cursor& tool, std::string_view type, engine::tool_definition definition);

    const response_limits& limits_;
    std::set<std::string>& text_tools_;
    tool_names& names_;
    left_out_names& left_out_;
    // Names of tools in no namespace, and all tools of the list that is being read.
    std::set<std::string> own_names_;
    std::vector<found_tool> found_;
    bool is_late_ = false;  // the list is in an item
    bool has_search_ = false;
};

}  // namespace semantic::protocol::responses
