// SPDX-License-Identifier: Apache-2.0
#include "protocol/tools.hpp"

#include <boost/json.hpp>

#include <set>
#include <string>

#include "protocol/wire/fields.hpp"

namespace semantic::protocol {

engine::tool_definition parse_function(const json_cursor& function, std::string_view schema_key,
                                       const char* otherwise, const request_limits& limits) {
    engine::tool_definition definition;
    definition.name = bounded_at(function, "name", limits.name_bytes_max);
    if (!is_tool_name(definition.name))
        function.at("name").fail(errc::bad_value, "may contain only letters, digits, - and _, is " +
                                                      quoted(definition.name));
    if (function.find("description")) definition.description = string_at(function, "description");
    if (otherwise != nullptr && !function.find(schema_key)) {
        definition.parameters_json = otherwise;
    } else {
        const json_cursor schema = function.at(schema_key);
        schema.as_object();
        definition.parameters_json = to_text(schema.value());
    }
    definition.strict = flag_at(function, "strict");
    return definition;
}

std::vector<engine::tool_definition> parse_tools(const json_cursor& root,
                                                 const request_limits& limits,
                                                 const tool_form& form) {
    std::vector<engine::tool_definition> tools;
    auto list = root.find("tools");
    const std::size_t count = list ? parse_count(*list, limits.tools_max) : 0;
    std::set<std::string> names;
    for (std::size_t i = 0; i < count; ++i) {
        const json_cursor item = list->item(i);
        auto tool = form.parse(item);
        if (!tool) continue;
        tools.push_back(*std::move(tool));
        if (!names.insert(tools.back().name).second)
            form.name_place(item).fail(errc::bad_value, "tool names must be unique, found " +
                                                            quoted(tools.back().name) + " twice");
    }
    return tools;
}

}  // namespace semantic::protocol
