// SPDX-License-Identifier: Apache-2.0
#include "protocol/anthropic/summaries.hpp"

#include <boost/json.hpp>

#include <algorithm>
#include <set>
#include <utility>

#include "protocol/history/summary.hpp"
#include "protocol/reply_parts.hpp"
#include "protocol/wire/fields.hpp"

namespace semantic::protocol::anthropic {

namespace json = boost::json;

void parse_compaction(const json_cursor& root, messages_request& request) {
    auto asked = root.find("compaction");
    if (!asked) return;
    const std::string type = string_at(*asked, "type");
    if (type != "summarize")
        asked->at("type").fail(errc::bad_value, R"(must be "summarize", is )" + quoted(type));
    request.compacts = true;
    std::string question;
    if (asked->find("instructions")) question = string_at(*asked, "instructions");
    if (is_white_space(question)) question = summary_question();
    ask_for_summary(request, question);
}

json::array tool_changes_of(const json_cursor& root, const engine::conversation& chat) {
    json::array changes;
    if (!chat.callable) return changes;
    std::set<std::string> declared;
    if (const auto list = root.find("tools"); list && list->value().is_array())
        for (const json::value& each : list->value().get_array()) {
            const json::object* tool = each.if_object();
            const json::value* name = tool ? tool->if_contains("name") : nullptr;
            if (name != nullptr && name->is_string())
                declared.emplace(name->get_string().data(), name->get_string().size());
        }
    const auto is_in = [](const std::vector<engine::tool_definition>& tools,
                          const std::string& name) {
        return std::ranges::any_of(tools, [&](const auto& each) { return each.name == name; });
    };
    for (const engine::tool_definition& each : chat.tools)
        if (!is_in(*chat.callable, each.name))
            changes.push_back(json::object{
                {"type", "tool_removal"},
                {"tool", json::object{{"type", "tool_reference"}, {"name", each.name}}}});
    for (const engine::tool_definition& each : *chat.callable) {
        if (is_in(chat.tools, each.name)) continue;
        json::object tool{{"type", "tool_reference"}, {"name", each.name}};
        if (!declared.contains(each.name)) {
            const auto schema = parse_json(each.parameters_json, json_limits{});
            tool = {
                {"type", "tool_definition"},
                {"definition", json::object{{"name", each.name},
                                            {"description", each.description},
                                            {"input_schema", schema ? *schema : json::object()}}}};
        }
        changes.push_back(json::object{{"type", "tool_addition"}, {"tool", std::move(tool)}});
    }
    return changes;
}

json::object compaction_block(std::string_view summary, json::array tool_changes) {
    json::value content;
    // Null where the model wrote none: such a block changes nothing when it comes back.
    if (!is_white_space(summary)) content = summary;
    return {{"type", "compaction"},
            {"content", std::move(content)},
            {"tool_changes", std::move(tool_changes)}};
}

std::string body_behind_summary(std::string_view rest, json::object block) {
    auto body = parse_json(rest, json_limits{});
    // Not reached with what parse_edits() has kept.
    if (!body || !body->is_object()) body = json::object();
    json::object& fields = body->get_object();
    fields["messages"] =
        json::array{json::object{{"role", "user"}, {"content", json::array{std::move(block)}}}};
    return to_text(*body);
}

}  // namespace semantic::protocol::anthropic
