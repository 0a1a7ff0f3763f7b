#include "engine/text/output/calls/offered_tools.hpp"

#include <boost/json.hpp>

#include <algorithm>
#include <set>

#include "engine/text/output/calls/json_stream.hpp"

namespace semantic::engine {

namespace {

namespace json = boost::json;

json::value parsed(std::string_view schema) {
    boost::system::error_code error;
    json::parse_options options;
    options.max_depth = 256;
    json::value made = json::parse(schema, error, {}, options);
    return error ? json::value() : made;
}

const json::object* properties_of(const json::value& schema) {
    const json::object* root = schema.if_object();
    const json::value* found = root == nullptr ? nullptr : root->if_contains("properties");
    return found == nullptr ? nullptr : found->if_object();
}

using types = std::set<std::string, std::less<>>;  // of JSON schema; empty: not told

std::string type_of(const json::value& value) {
    switch (value.kind()) {
        case json::kind::null:
            return "null";
        case json::kind::bool_:
            return "boolean";
        case json::kind::string:
            return "string";
        case json::kind::array:
            return "array";
        case json::kind::object:
            return "object";
        case json::kind::double_:
            return "number";
        case json::kind::int64:
        case json::kind::uint64:
            break;
    }
    return "integer";
}

void note_type(const json::value& type, types& into) {
    if (type.is_string()) into.emplace(type.get_string());
}

/// What a schema says of types, looking into its alternatives. A reference tells nothing.
void note_types(const json::value& schema, types& into, int depth) {
    const json::object* rules = schema.if_object();
    if (rules == nullptr || depth > 8) return;
    if (const json::value* type = rules->if_contains("type")) {
        if (const json::array* several = type->if_array()) {
            for (const json::value& one : *several) note_type(one, into);
        } else {
            note_type(*type, into);
        }
        return;
    }
    if (const json::value* only = rules->if_contains("const")) into.insert(type_of(*only));
    if (const json::value* choices = rules->if_contains("enum"); choices && choices->is_array())
        for (const json::value& one : choices->get_array()) into.insert(type_of(one));
    for (const char* key : {"anyOf", "oneOf", "allOf"})
        if (const json::value* ways = rules->if_contains(key); ways && ways->is_array())
            for (const json::value& way : ways->get_array()) note_types(way, into, depth + 1);
}

types types_of(std::string_view schema, std::string_view parameter) {
    types found;
    const json::value root = parsed(schema);
    const json::object* properties = properties_of(root);
    if (properties != nullptr)
        if (const json::value* rules = properties->if_contains(parameter))
            note_types(*rules, found, 0);
    return found;
}

bool allows(const types& allowed, const std::string& type) {
    if (allowed.empty() || allowed.contains(type)) return true;
    if (type == "integer") return allowed.contains("number");
    return false;
}

std::string_view trimmed_view(std::string_view text) {
    while (!text.empty() && is_json_space(text.front())) text.remove_prefix(1);
    while (!text.empty() && is_json_space(text.back())) text.remove_suffix(1);
    return text;
}

std::string compact(std::string_view text) {
    json_stream checked;
    std::string out;
    for (const char c : text) checked.push(c, out);
    checked.push(' ', out);  // ends a number
    return checked.at() == json_stream::state::whole ? out : std::string();
}

std::string string_of(std::string_view text) {
    std::string out = "\"";
    for (const char c : text) append_escaped(out, c);
    return out + '"';
}

}  // namespace

offered_tools::offered_tools(std::span<const tool_definition> tools) {
    if (tools.empty()) return;
    std::vector<one_tool> made;
    for (const tool_definition& tool : tools) made.push_back({tool.name, tool.parameters_json});
    tools_ = std::make_shared<const std::vector<one_tool>>(std::move(made));
}

offered_tools offered_tools::any() {
    offered_tools made;
    made.any_ = true;
    return made;
}

const offered_tools::one_tool* offered_tools::find(std::string_view name) const {
    if (!tools_) return nullptr;
    const auto found = std::find_if(tools_->begin(), tools_->end(),
                                    [&](const one_tool& tool) { return tool.name == name; });
    return found == tools_->end() ? nullptr : &*found;
}

bool offered_tools::has(std::string_view name) const {
    return any_ ? !name.empty() : find(name) != nullptr;
}

bool offered_tools::is_text(std::string_view tool, std::string_view parameter) const {
    const one_tool* found = find(tool);
    return found != nullptr && types_of(found->schema, parameter) == types{"string"};
}

std::string offered_tools::json_of(std::string_view tool, std::string_view parameter,
                                   std::string_view written) const {
    const one_tool* found = find(tool);
    const types allowed = found == nullptr ? types() : types_of(found->schema, parameter);
    std::string_view bare = trimmed_view(written);
    if (bare == "True" && allows(allowed, "boolean")) bare = "true";
    if (bare == "False" && allows(allowed, "boolean")) bare = "false";
    if (bare == "None" && allows(allowed, "null")) bare = "null";
    boost::system::error_code error;
    const json::value value = json::parse(bare, error);
    if (!error && allows(allowed, type_of(value)))
        if (std::string made = compact(bare); !made.empty()) return made;
    return string_of(written);
}

std::optional<std::string> offered_tools::parameter_at(std::string_view tool,
                                                       std::size_t place) const {
    const one_tool* found = find(tool);
    if (found == nullptr) return std::nullopt;
    const json::value schema = parsed(found->schema);
    const json::object* properties = properties_of(schema);
    if (properties == nullptr || place >= properties->size()) return std::nullopt;
    return std::string(std::next(properties->begin(), static_cast<std::ptrdiff_t>(place))->key());
}

}  // namespace semantic::engine
