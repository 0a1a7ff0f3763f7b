// SPDX-License-Identifier: Apache-2.0
#include "protocol/responses/tool_list.hpp"

#include <utility>

#include "protocol/openai/text_tools.hpp"
#include "protocol/tools.hpp"
#include "protocol/wire/fields.hpp"

namespace semantic::protocol::responses {

namespace {

void refuse_name(const json_cursor& tool, std::string_view name) {
    tool.at("name").fail(errc::bad_value,
                         "tool names must be unique, found " + quoted(name) + " twice");
}

}  // namespace

bool is_own_tool(std::string_view type) { return type == "function" || type == "custom"; }

engine::tool_lists tool_list_reader::read(const json_cursor& root) {
    auto list = root.find("tools");
    const std::size_t count = list ? parse_count(*list, limits_.tools_max) : 0;
    for (std::size_t i = 0; i < count; ++i) reserve_name(list->item(i));
    for (std::size_t i = 0; i < count && list->ok(); ++i) add(list->item(i));
    engine::tool_lists lists;
    for (found_tool& each : std::exchange(found_, {})) {
        const bool waits = has_search_ && each.is_deferred;
        (waits ? lists.deferred : lists.told).push_back(std::move(each.definition));
    }
    return lists;
}

std::vector<engine::tool_definition> tool_list_reader::read_late(const json_cursor& list) {
    is_late_ = true;
    const std::size_t count = parse_count(list, limits_.tools_max);
    for (std::size_t i = 0; i < count && list.ok(); ++i)
        if (list.item(i).find("type")) add(list.item(i));
    std::vector<engine::tool_definition> tools;
    for (found_tool& each : std::exchange(found_, {})) tools.push_back(std::move(each.definition));
    return tools;
}

/// Reserves the name of a tool in no namespace, so that no flat name that is made for a namespace's
/// tool equals it.
void tool_list_reader::reserve_name(const json_cursor& tool) {
    auto type = tool.find("type");
    auto name = tool.find("name");
    if (!type || !name || !type->value().is_string() || !name->value().is_string()) return;
    if (is_own_tool(type->as_string())) names_.reserve(std::string(name->as_string()));
}

/// Adds one entry of the list; one of an unknown type is left out by name.
void tool_list_reader::add(const json_cursor& tool) {
    const std::string type = string_at(tool, "type");
    if (type == "namespace") return add_namespace(tool);
    if (type == "tool_search" && !is_late_) return add_search(tool);
    if (!is_own_tool(type)) return left_out_.add(type);
    engine::tool_definition definition = parse_definition(tool, type);
    if (is_late_) names_.reserve(definition.name);
    // A later list may define a tool once more; the roster compares the two.
    if (!own_names_.insert(definition.name).second && !is_late_)
        return refuse_name(tool, definition.name);
    take(tool, type, std::move(definition));
}

/// Adds the tools of a namespace, each under a flat name made of both names, since templates know
/// no namespaces.
void tool_list_reader::add_namespace(const json_cursor& holder) {
    const std::string space = bounded_at(holder, "name", limits_.name_bytes_max);
    auto list = holder.find("tools");
    const std::size_t count = list ? parse_count(*list, limits_.tools_max) : 0;
    for (std::size_t i = 0; i < count && list->ok(); ++i) {
        const json_cursor tool = list->item(i);
        const std::string type = string_at(tool, "type");
        if (!is_own_tool(type)) {
            left_out_.add(type);
            continue;
        }
        engine::tool_definition definition = parse_definition(tool, type);
        auto flat = names_.add(space, definition.name);
        // An item may repeat a tool, which keeps its flat name.
        if (!flat && !is_late_) return refuse_name(tool, definition.name);
        definition.name = flat ? *std::move(flat) : names_.flat_of(space, definition.name);
        take(tool, type, std::move(definition));
    }
}

/// Adds a search that the client runs: a function for the model, with a type of its own on the
/// wire.
void tool_list_reader::add_search(const json_cursor& tool) {
    auto runs = tool.find("execution");
    if (!runs || runs->as_string() != "client") return left_out_.add("tool_search");
    engine::tool_definition definition{std::string(search_tool_name), {}, {}, false};
    if (tool.find("description")) definition.description = string_at(tool, "description");
    if (definition.description.empty())
        definition.description = "Finds tools that can be called behind that.";
    definition.parameters_json = R"({"type":"object","properties":{}})";
    if (auto schema = tool.find("parameters")) {
        schema->as_object();
        definition.parameters_json = to_text(schema->value());
    }
    if (!own_names_.insert(definition.name).second)
        return tool.fail(errc::bad_value,
                         "tool names must be unique, found " + quoted(definition.name) + " twice");
    has_search_ = true;
    take(tool, "function", std::move(definition));
}

engine::tool_definition tool_list_reader::parse_definition(const json_cursor& tool,
                                                           std::string_view type) const {
    if (type == "custom") return openai::parse_text_tool(tool, limits_);
    return parse_function(tool, "parameters", R"({"type":"object","properties":{}})", limits_);
}

/// Stores a definition. `type`: of the tool on the wire.
void tool_list_reader::take(const json_cursor& tool, std::string_view type,
                            engine::tool_definition definition) {
    if (found_.size() == limits_.tools_max)
        return tool.fail(errc::bad_value, "there may be " + std::to_string(limits_.tools_max) +
                                              " tools, with those in namespaces");
    if (type == "custom") text_tools_.insert(definition.name);
    found_.push_back({std::move(definition), flag_at(tool, "defer_loading")});
}

}  // namespace semantic::protocol::responses
