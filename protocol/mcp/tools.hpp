// SPDX-License-Identifier: Apache-2.0
#pragma once
// The tools that this server offers over MCP: what they take, and which of its routes does it.
// Pure.

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include <string>
#include <string_view>
#include <vector>

#include "protocol/wire/errc.hpp"

namespace semantic::protocol::mcp {

/// Returns: the tools as tools/list has them: name, title, description, inputSchema, annotations.
boost::json::array tool_list();

/// What a tool does with an agent or a scenario.
enum class action { list_agents, inspect, fork, append, recall, list_scenarios, run_scenario };

struct planned_call {
    action done = action::list_agents;
    std::string subject;  // the agent or scenario; empty for lists
    std::string query;    // of the route's target: "?limit=3", or empty
    std::string body;     // for the route, as its own clients write it
};

/// Returns: how a call of the tool is performed by this server's routes. Errors: not_found for an
/// unknown tool; missing_field, bad_value for its arguments, by their names.
result<planned_call> plan_call(std::string_view tool, const boost::json::object& arguments);

}  // namespace semantic::protocol::mcp
