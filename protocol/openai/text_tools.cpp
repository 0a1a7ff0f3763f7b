// SPDX-License-Identifier: Apache-2.0
#include "protocol/openai/text_tools.hpp"

#include <boost/json.hpp>

#include <algorithm>
#include <cstddef>

#include "protocol/tools.hpp"
#include "protocol/wire/fields.hpp"

namespace semantic::protocol::openai {

namespace json = boost::json;

namespace {

/// Returns: the schema of a function with the one argument `input`.
std::string schema_of(json::object input) {
    return to_text(json::object{{"type", "object"},
                                {"properties", json::object{{"input", std::move(input)}}},
                                {"required", json::array{"input"}},
                                {"additionalProperties", false}});
}

/// Adds the grammar that a tool's input must follow to its definition.
void add_grammar(const json_cursor& grammar, engine::tool_definition& definition) {
    const std::string syntax = string_at(grammar, "syntax");
    const std::string text = string_at(grammar, "definition");
    if (syntax == "regex") {
        // The vendor's regular expressions must match the whole input.
        definition.parameters_json =
            schema_of({{"type", "string"}, {"pattern", "^(?:" + text + ")$"}});
        return;
    }
    definition.description += "\n\nThe input follows this grammar (" + syntax + "):\n" + text;
}

/// Parses {"input": TEXT} whose end is missing, possibly in the middle of an escape: tries shorter
/// and shorter texts until one, with a quote and a brace after it, is JSON.
result<json::value> completed_input(std::string_view arguments_json) {
    constexpr std::size_t escape_bytes_max = 11;  // of two halves of a character, but the last
    result<json::value> parsed = fail(errc::malformed_json, "is no input");
    for (std::size_t cut = 0; !parsed && cut <= std::min(escape_bytes_max, arguments_json.size());
         ++cut) {
        const auto kept = arguments_json.substr(0, arguments_json.size() - cut);
        parsed = parse_json(std::string(kept) + "\"}", json_limits{});
    }
    return parsed;
}

}  // namespace

engine::tool_definition parse_text_tool(const json_cursor& tool, const request_limits& limits) {
    const std::string schema = schema_of({{"type", "string"}});
    engine::tool_definition definition = parse_function(tool, "parameters", schema.c_str(), limits);
    auto format = tool.find("format");
    if (!format || string_at(*format, "type") != "grammar") return definition;
    auto grammar = format->find("grammar");
    add_grammar(grammar ? *grammar : *format, definition);
    return definition;
}

std::string read_text_input(std::string_view arguments_json) {
    auto parsed = parse_json(arguments_json, json_limits{});
    if (!parsed) parsed = completed_input(arguments_json);
    if (!parsed) return {};
    const json::object* object = parsed->if_object();
    const json::value* input = object != nullptr ? object->if_contains("input") : nullptr;
    // A model that ignored the schema: what it wrote is all there is to show.
    if (input == nullptr || !input->is_string()) return std::string(arguments_json);
    return std::string(input->get_string());
}

}  // namespace semantic::protocol::openai
