// SPDX-License-Identifier: Apache-2.0
#include "protocol/mcp/tools.hpp"

#include <boost/json.hpp>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <limits>
#include <optional>
#include <span>
#include <utility>

#include "protocol/agents/agents.hpp"
#include "protocol/wire/fields.hpp"
#include "protocol/wire/json.hpp"
#include "storage/types/hex.hpp"

namespace semantic::protocol::mcp {

namespace json = boost::json;

namespace {

constexpr std::size_t id_bytes_max = 256;
constexpr int page_agents = 100;    // where the call names no limit
constexpr int answer_tokens = 256;  // of an answer, where the call names no limit

enum class value_kind { text, count, flag, place };

struct argument {
    std::string_view name;
    value_kind kind;
    bool is_needed;
    std::string_view description;
    int least = 0;  // of a count
};

struct tool {
    std::string_view name;
    std::string_view title;
    action done;
    bool only_reads;
    std::string_view description;
    std::span<const argument> arguments;
};

constexpr argument agent_id{"agent_id", value_kind::text, true, "The agent's name."};
constexpr argument max_tokens{"max_tokens", value_kind::count, false,
                              "The most tokens of the answer; without it 256.", 1};

constexpr std::array list_arguments{
    argument{"limit", value_kind::count, false, "Agents of a page: 1 to 1,000; without it 100.", 1},
    argument{"after", value_kind::text, false, "Only agents behind this name."}};
constexpr std::array inspect_arguments{agent_id};
constexpr std::array fork_arguments{agent_id,
                                    argument{"new_agent_id", value_kind::text, false,
                                             "The fork's name; without it the server names it."},
                                    argument{"at", value_kind::place, false,
                                             "Where the fork parts from the agent: after the "
                                             "answer with this message_id, or after so many "
                                             "tokens; without it at the agent's end."}};
constexpr std::array append_arguments{
    agent_id,
    argument{"text", value_kind::text, true, "What the agent is told, as its user's message."},
    argument{"max_tokens", value_kind::count, false,
             "The most tokens of an answer; 0, and without it: it reads and answers nothing.", 0},
    argument{"create", value_kind::flag, false, "The text is the first that this agent is told."}};
constexpr std::array recall_arguments{
    agent_id, argument{"question", value_kind::text, true, "What the agent is asked."}, max_tokens};
constexpr std::array run_arguments{
    argument{"scenario_id", value_kind::text, true, "The scenario's id, of list_scenarios."},
    max_tokens};

constexpr std::array tools{
    tool{"list_agents", "List agents", action::list_agents, true,
         "Lists the agents that the server remembers, by name, with how many tokens each knows and "
         "where its memory is.",
         list_arguments},
    tool{"inspect_agent", "Inspect an agent", action::inspect, true,
         "Says of one agent how many tokens it knows, whether its memory is in RAM or on disk, and "
         "what it takes.",
         inspect_arguments},
    tool{"fork_agent", "Fork an agent", action::fork, false,
         "Makes a new agent that knows what this one knows, and goes its own way. It shares the "
         "memory and costs next to nothing.",
         fork_arguments},
    tool{
        "append_to_agent", "Tell an agent something", action::append, false,
        "Adds a message to what an agent knows, and answers it where max_tokens says so. The agent "
        "remembers both.",
        append_arguments},
    tool{"recall_from_agent", "Ask an agent what it remembers", action::recall, true,
         "Asks an agent a question and returns its answer from memory. The agent itself stays as "
         "it is: it does not remember that it was asked.",
         recall_arguments},
    tool{"list_scenarios",
         "List scenarios",
         action::list_scenarios,
         true,
         "Lists the scenarios of several agents that the server can run.",
         {}},
    tool{"run_scenario", "Run a scenario", action::run_scenario, false,
         "Runs a scenario of several agents to its end, and returns what came of it. May take "
         "minutes.",
         run_arguments},
};

/// The JSON schema's type for such a value.
json::value type_of(value_kind kind) {
    switch (kind) {
        case value_kind::text:
            return "string";
        case value_kind::count:
            return "integer";
        case value_kind::flag:
            return "boolean";
        case value_kind::place:
            return {"string", "integer"};
    }
    return nullptr;
}

/// The JSON schema of a tool's arguments.
json::object schema_of(const tool& one) {
    json::object properties;
    json::array required;
    for (const argument& each : one.arguments) {
        json::object property{{"type", type_of(each.kind)}, {"description", each.description}};
        const bool is_number = each.kind == value_kind::count || each.kind == value_kind::place;
        if (is_number) property["minimum"] = each.least;
        properties[each.name] = std::move(property);
        if (each.is_needed) required.push_back(json::value(each.name));
    }
    json::object schema{{"type", "object"}, {"properties", std::move(properties)}};
    if (!required.empty()) schema["required"] = std::move(required);
    schema["additionalProperties"] = false;
    return schema;
}

/// Complains of a value of a wrong kind.
void check_value(const argument& known, const json_cursor& field) {
    switch (known.kind) {
        case value_kind::text:
            field.as_string();
            return;
        case value_kind::count:
            field.as_integer(known.least, std::numeric_limits<int>::max());
            return;
        case value_kind::flag:
            field.as_bool();
            return;
        case value_kind::place:
            agents::parse_fork_point(field);
            return;
    }
}

/// Complains of arguments that the tool does not have, and of values of a wrong kind.
void check_arguments(const tool& one, const json_cursor& given) {
    for (const auto& field : given.as_object()) {
        const auto known =
            std::ranges::find(one.arguments, std::string_view(field.key()), &argument::name);
        if (known == one.arguments.end())
            return given.place(field.key()).fail(errc::bad_value, "this tool has no such argument");
    }
    for (const argument& each : one.arguments) {
        const auto field = each.is_needed ? given.at(each.name) : given.find(each.name);
        if (field) check_value(each, *field);
    }
}

/// The text for a query of a URL.
std::string percent_encoded(std::string_view text) {
    std::string encoded;
    for (const char c : text) {
        const bool is_plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
                              (c >= 'A' && c <= 'Z') || c == '-' || c == '_' || c == '.';
        if (is_plain) {
            encoded += c;
            continue;
        }
        encoded += '%';
        storage::append_hex(encoded, c);
    }
    return encoded;
}

/// Returns: the query of the route that lists agents.
std::string list_query(const json_cursor& given) {
    std::string query;
    const auto add = [&query](std::string_view key, std::string_view text) {
        query.append(query.empty() ? "?" : "&").append(key).append("=").append(text);
    };
    const auto limit = given.find("limit");
    add("limit", limit ? to_text(limit->value()) : std::to_string(page_agents));
    if (const auto after = given.find("after"))
        add("after", percent_encoded(parse_bounded(*after, id_bytes_max)));
    return query;
}

/// Returns: a body for /v1/agents/{id}/fork; empty where the call sets nothing.
std::string fork_order_of(const json_cursor& given) {
    json::object order;
    if (given.find("new_agent_id"))
        order["agent_id"] = bounded_at(given, "new_agent_id", id_bytes_max);
    if (const auto at = given.find("at")) order["at"] = at->value();
    return order.empty() ? std::string() : to_text(order);
}

/// Returns: a body for /v1/agents/{id}/generate with one message. `appends`: to what the agent
/// knows; `tokens`: the most of an answer.
std::string said_to_agent(std::string_view text, bool appends, std::int64_t tokens) {
    return to_text(
        json::object{{"append", appends},
                     {"max_tokens", tokens},
                     {"messages", json::array{json::object{{"role", "user"}, {"content", text}}}}});
}

std::int64_t tokens_at(const json_cursor& given, int otherwise) {
    const auto field = given.find("max_tokens");
    return field ? field->as_integer(0, std::numeric_limits<int>::max()) : otherwise;
}

/// Returns: which route performs the call, and with what. Complains of wrong arguments.
planned_call plan(const tool& one, const json_cursor& given) {
    check_arguments(one, given);
    planned_call call{one.done, {}, {}, {}};
    if (!given.ok()) return call;
    if (given.find("agent_id")) call.subject = bounded_at(given, "agent_id", id_bytes_max);
    switch (one.done) {
        case action::list_agents:
            call.query = list_query(given);
            break;
        case action::fork:
            call.body = fork_order_of(given);
            break;
        case action::append:
            call.body = said_to_agent(string_at(given, "text"), !flag_at(given, "create"),
                                      tokens_at(given, 0));
            break;
        case action::recall:
            call.body =
                said_to_agent(string_at(given, "question"), true, tokens_at(given, answer_tokens));
            break;
        case action::run_scenario:
            call.subject = bounded_at(given, "scenario_id", id_bytes_max);
            if (given.find("max_tokens"))
                call.body = to_text(json::object{{"max_tokens", tokens_at(given, answer_tokens)}});
            break;
        case action::inspect:
        case action::list_scenarios:
            break;
    }
    return call;
}

}  // namespace

json::array tool_list() {
    json::array list;
    for (const tool& each : tools)
        list.push_back(json::object{{"name", each.name},
                                    {"title", each.title},
                                    {"description", each.description},
                                    {"inputSchema", schema_of(each)},
                                    {"annotations", json::object{{"readOnlyHint", each.only_reads},
                                                                 {"destructiveHint", false},
                                                                 {"openWorldHint", false}}}});
    return list;
}

result<planned_call> plan_call(std::string_view name, const json::object& arguments) {
    const auto found = std::ranges::find(tools, name, &tool::name);
    if (found == tools.end()) return fail(errc::not_found, "there is no tool " + quoted(name));
    const json::value given(arguments);
    std::optional<failure> complaint;
    planned_call call = plan(*found, json_cursor(given, "", complaint));
    if (complaint) return *complaint;
    return call;
}

}  // namespace semantic::protocol::mcp
