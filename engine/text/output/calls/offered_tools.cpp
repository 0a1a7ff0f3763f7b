// SPDX-License-Identifier: Apache-2.0
#include "engine/text/output/calls/offered_tools.hpp"

#include <boost/json.hpp>

#include <array>
#include <utility>

#include "engine/text/output/calls/call_reader.hpp"
#include "engine/text/output/calls/json_stream.hpp"

namespace semantic::engine {

namespace {

namespace json = boost::json;

/// A null value when the text is no JSON.
json::value parsed(std::string_view schema) {
    boost::system::error_code error;
    json::parse_options options;
    options.max_depth = 256;
    json::value made = json::parse(schema, error, {}, options);
    return error ? json::value() : made;
}

/// The schema's member "properties"; null when it has none.
const json::object* properties_of(const json::value& schema) {
    const json::object* root = schema.if_object();
    const json::value* found = root == nullptr ? nullptr : root->if_contains("properties");
    return found == nullptr ? nullptr : found->if_object();
}

// The types of JSON schema as bits, so that a parameter's types are one number. 0: any type.
constexpr std::uint8_t null_type = 1, boolean_type = 2, string_type = 4, array_type = 8,
                       object_type = 16, number_type = 32, integer_type = 64;

/// The bit of a value's type.
std::uint8_t type_of(const json::value& value) {
    switch (value.kind()) {
        case json::kind::null:
            return null_type;
        case json::kind::bool_:
            return boolean_type;
        case json::kind::string:
            return string_type;
        case json::kind::array:
            return array_type;
        case json::kind::object:
            return object_type;
        case json::kind::double_:
            return number_type;
        case json::kind::int64:
        case json::kind::uint64:
            break;
    }
    return integer_type;
}

/// The bit of a type's name; 0 when `name` is no string. An unknown name gets a bit that no value
/// has, so that it allows no value, whereas 0 would allow all.
std::uint8_t type_named(const json::value& name) {
    constexpr std::uint8_t other_type = 128;
    static constexpr std::array<std::pair<std::string_view, std::uint8_t>, 7> names{
        {{"null", null_type},
         {"boolean", boolean_type},
         {"string", string_type},
         {"array", array_type},
         {"object", object_type},
         {"number", number_type},
         {"integer", integer_type}}};
    if (!name.is_string()) return 0;
    for (const auto& [known, type] : names)
        if (name.get_string() == known) return type;
    return other_type;
}

/// The types that a schema allows, including those of its alternatives; 0 when it does not restrict
/// them. References ($ref) are not followed, nor alternatives nested deeper than 8 levels.
std::uint8_t types_in(const json::value& schema, int depth) {
    const json::object* rules = schema.if_object();
    if (rules == nullptr || depth > 8) return 0;
    std::uint8_t found = 0;
    if (const json::value* type = rules->if_contains("type")) {
        found |= type_named(*type);
        if (type->is_array())
            for (const json::value& one : type->get_array()) found |= type_named(one);
        return found;
    }
    if (const json::value* values = rules->if_contains("enum"); values && values->is_array())
        for (const json::value& one : values->get_array()) found |= type_of(one);
    if (const json::value* value = rules->if_contains("const")) found |= type_of(*value);
    // The types of allOf are joined, too: that allows more than the schema, but refuses nothing.
    for (const char* key : {"anyOf", "oneOf", "allOf"})
        if (const json::value* ways = rules->if_contains(key); ways && ways->is_array())
            for (const json::value& way : ways->get_array()) found |= types_in(way, depth + 1);
    return found;
}

/// Whether a parameter of types `allowed` may have a value of `type`. An integer is a number, too.
bool allows(std::uint8_t allowed, std::uint8_t type) {
    if (allowed == 0 || (allowed & type) != 0) return true;
    return type == integer_type && (allowed & number_type) != 0;
}

std::string_view trimmed_view(std::string_view text) {
    while (!text.empty() && is_json_space(text.front())) text.remove_prefix(1);
    while (!text.empty() && is_json_space(text.back())) text.remove_suffix(1);
    return text;
}

/// The JSON text without white space between its parts; empty when it is no JSON.
std::string compact(std::string_view text) {
    json_stream checked;
    std::string out;
    for (const char c : text) checked.push(c, out);
    checked.push(' ', out);  // ends a number
    return checked.at() == json_stream::state::whole ? out : std::string();
}

/// `text` as a JSON string.
std::string string_of(std::string_view text) {
    std::string out = "\"";
    for (const char c : text) append_escaped(out, c);
    return out + '"';
}

}  // namespace

offered_tools::offered_tools(std::span<const tool_definition> tools) {
    if (tools.empty()) return;
    tools_by_name made;
    // Of two tools of one name the first counts.
    for (const tool_definition& tool : tools)
        if (!made.contains(tool.name)) made.emplace(tool.name, read_schema(tool.parameters_json));
    tools_ = std::make_shared<const tools_by_name>(std::move(made));
}

offered_tools offered_tools::any() {
    offered_tools made;
    made.any_ = true;
    return made;
}

offered_tools::one_tool offered_tools::read_schema(std::string_view schema) {
    one_tool made;
    const json::value root = parsed(schema);
    const json::object* properties = properties_of(root);
    if (properties == nullptr) return made;
    for (const auto& [key, rules] : *properties) {
        made.parameters.emplace_back(key);
        made.allowed.emplace(key, types_in(rules, 0));
    }
    return made;
}

const offered_tools::one_tool* offered_tools::find(std::string_view name) const {
    if (!tools_) return nullptr;
    const auto found = tools_->find(name);
    return found == tools_->end() ? nullptr : &found->second;
}

offered_tools::types offered_tools::types_of(std::string_view tool,
                                             std::string_view parameter) const {
    const one_tool* found = find(tool);
    if (found == nullptr) return 0;
    const auto allowed = found->allowed.find(parameter);
    return allowed == found->allowed.end() ? types{0} : allowed->second;
}

bool offered_tools::has(std::string_view name) const {
    return any_ ? !name.empty() : find(name) != nullptr;
}

bool offered_tools::is_text(std::string_view tool, std::string_view parameter) const {
    return types_of(tool, parameter) == string_type;
}

std::string offered_tools::json_of(std::string_view tool, std::string_view parameter,
                                   std::string_view written) const {
    const types allowed = types_of(tool, parameter);
    std::string_view bare = trimmed_view(written);
    if (bare == "True" && allows(allowed, boolean_type)) bare = "true";
    if (bare == "False" && allows(allowed, boolean_type)) bare = "false";
    if (bare == "None" && allows(allowed, null_type)) bare = "null";
    boost::system::error_code error;
    const json::value value = json::parse(bare, error);
    if (!error && allows(allowed, type_of(value)))
        if (std::string made = compact(bare); !made.empty()) return made;
    // Some templates print lists and dicts as Python does.
    const bool is_list = bare.starts_with('[') && allows(allowed, array_type);
    const bool is_dict = bare.starts_with('{') && allows(allowed, object_type);
    if (error && (is_list || is_dict))
        if (std::string made = json_of_python(bare); !made.empty()) return made;
    return string_of(written);
}

std::optional<std::string> offered_tools::parameter_at(std::string_view tool,
                                                       std::size_t place) const {
    const one_tool* found = find(tool);
    if (found == nullptr || place >= found->parameters.size()) return std::nullopt;
    return found->parameters[place];
}

}  // namespace semantic::engine
