// SPDX-License-Identifier: Apache-2.0
#include "engine/grammar/schema_parts.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "engine/grammar/json_grammar.hpp"
#include "engine/types/exact_json.hpp"

namespace semantic::engine {

namespace {

namespace json = boost::json;

// Bounds of the notes: their number, after which one says "and more", and the bytes of a path.
constexpr std::size_t complaints_max = 64;
constexpr std::size_t place_bytes_max = 200;

// Keywords that exclude values which other keywords allow, or for which a grammar would need
// memory.
constexpr std::array<std::string_view, 14> unsupported{"not",
                                                       "if",
                                                       "then",
                                                       "else",
                                                       "contains",
                                                       "minContains",
                                                       "maxContains",
                                                       "dependentRequired",
                                                       "dependencies",
                                                       "$dynamicRef",
                                                       "dependentSchemas",
                                                       "unevaluatedProperties",
                                                       "unevaluatedItems",
                                                       "$recursiveRef"};
constexpr std::array<std::string_view, 14> annotations{
    "title",    "description", "default",   "examples", "$schema", "$id",   "$comment",
    "readOnly", "deprecated",  "writeOnly", "$anchor",  "strict",  "$defs", "definitions"};
constexpr std::array<std::string_view, 4> about_objects{"properties", "required",
                                                        "additionalProperties", "propertyNames"};
constexpr std::array<std::string_view, 3> about_object_sizes{"patternProperties", "minProperties",
                                                             "maxProperties"};
constexpr std::array<std::string_view, 6> about_arrays{
    "items", "prefixItems", "minItems", "maxItems", "uniqueItems", "additionalItems"};
constexpr std::array<std::string_view, 3> about_strings{"pattern", "minLength", "maxLength"};
constexpr std::array<std::string_view, 5> about_numbers{"minimum", "maximum", "exclusiveMinimum",
                                                        "exclusiveMaximum", "multipleOf"};

constexpr std::array<std::string_view, 7> all_types{"object",  "array",   "string", "number",
                                                    "integer", "boolean", "null"};

/// A pattern for IPv6 addresses: eight groups, or fewer around "::" (RFC 4291, section 2.2).
std::string ipv6() {
    const std::string group = "[0-9A-Fa-f]{1,4}";
    std::string all =
        "^(" + group + ":){7}" + group + "$|^(" + group + ":){1,7}:$|^:((:" + group + "){1,7}|:)$";
    for (int before = 1; before < 7; ++before)
        all += "|^(" + group + ":){1," + std::to_string(before) + "}(:" + group + "){1," +
               std::to_string(7 - before) + "}$";
    return all;
}

/// The supported formats, each with its regular expression.
const auto& formats() {
    // 29 February in the years that have it (RFC 3339, section 5.7 and appendix C). Many readers
    // know no year 0.
    static const std::string date =
        "(?!0000)([0-9]{4}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]"
        "|30)|"
        "02-(0[1-9]|1[0-9]|2[0-8]))|([0-9]{2}(0[48]|[2468][048]|[13579][26])|"
        "([02468][048]|[13579][26])00)-02-29)";
    static const std::string time =
        "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])";
    static const std::string byte = "(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])";
    // RFC 3339, appendix A.
    static const std::string count = "[0-9]{1,6}";
    static const std::string days = "((" + count + "Y(" + count + "M(" + count + "D)?)?|" + count +
                                    "M(" + count + "D)?|" + count + "D))";
    static const std::string hours = "(" + count + "H(" + count + "M(" + count + "S)?)?|" + count +
                                     "M(" + count + "S)?|" + count + "S)";
    static const std::string atom = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+";  // RFC 5322, section 3.2.3
    static const std::array<std::pair<std::string_view, std::string>, 8> all{{
        {"date", "^" + date + "$"},
        {"time", "^" + time + "$"},
        {"date-time", "^" + date + "T" + time + "$"},
        {"uuid", "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"},
        {"ipv4", "^(" + byte + "\\.){3}" + byte + "$"},
        {"ipv6", ipv6()},
        {"duration", "^P(" + count + "W|" + days + "(T" + hours + ")?|T" + hours + ")$"},
        {"email", "^" + atom + "(\\." + atom +
                      ")*@([A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?\\.)+[A-Za-z]{2,24}$"},
    }};
    return all;
}

template <class List, class T>
bool among(const List& list, const T& one) {
    return std::find(list.begin(), list.end(), one) != list.end();
}

/// The name that JSON schema has for the type of a value. A number without a fraction is an
/// integer.
std::string_view type_of(const json::value& value) {
    if (const auto number = exact_number(value)) return is_whole(*number) ? "integer" : "number";
    switch (value.kind()) {
        case json::kind::object:
            return "object";
        case json::kind::array:
            return "array";
        case json::kind::string:
            return "string";
        case json::kind::bool_:
            return "boolean";
        case json::kind::null:
            return "null";
        case json::kind::double_: {
            double number = value.get_double();
            return number == std::floor(number) ? "integer" : "number";
        }
        default:
            return "integer";
    }
}

}  // namespace

void schema_complaints::give_up(const std::string& path, const std::string& reason) {
    ++count_;
    std::string sentence = shortened(path, place_bytes_max) + ": " + reason;
    if (not_held_ == nullptr) throw unsupported_schema(sentence);
    if (not_held_->size() > complaints_max || among(*not_held_, sentence)) return;
    if (not_held_->size() == complaints_max) sentence = "and more";
    not_held_->push_back(std::move(sentence));
}

std::string shortened(std::string_view text, std::size_t bytes_max) {
    if (text.size() <= bytes_max) return std::string(text);
    std::size_t end = bytes_max - 3;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
    return std::string(text.substr(0, end)) + "...";
}

// Prints only as much of the value as is shown.
std::string shown(const json::value& value) {
    if (const auto number = exact_number(value)) return shortened(*number);
    std::array<char, 128> text{};
    json::serializer printed;
    printed.reset(&value);
    std::size_t size = 0;
    while (!printed.done() && size < text.size())
        size += printed.read(text.data() + size, text.size() - size).size();
    return shortened(std::string_view(text.data(), size));
}

bool says_nothing(std::string_view keyword) { return among(annotations, keyword); }

bool is_unsupported(std::string_view keyword) { return among(unsupported, keyword); }

bool asserts(std::string_view keyword) {
    return among(about_objects, keyword) || among(about_object_sizes, keyword) ||
           among(about_arrays, keyword) || among(about_strings, keyword) ||
           among(about_numbers, keyword);
}

std::set<std::string_view> types_of(const json::object& schema, const std::string& path,
                                    schema_complaints& to) {
    std::set<std::string_view> out;
    const json::value* type = schema.if_contains("type");
    auto take = [&](const json::value& name) {
        auto known = name.is_string() ? std::find(all_types.begin(), all_types.end(),
                                                  std::string_view(name.get_string()))
                                      : all_types.end();
        if (known == all_types.end())
            to.give_up(path, "'type' is not known: " + shown(name));
        else
            out.insert(*known);
    };
    if (type != nullptr && type->is_array()) {
        if (type->get_array().empty()) to.give_up(path, "'type' is an empty list");
        for (const json::value& name : type->get_array()) take(name);
    } else if (type != nullptr) {
        take(*type);
    } else {
        auto has = [&](const auto& keys) {
            return std::any_of(keys.begin(), keys.end(),
                               [&](std::string_view key) { return schema.contains(key); });
        };
        if (has(about_objects) || has(about_object_sizes)) out.insert("object");
        if (has(about_arrays)) out.insert("array");
        if (has(about_strings) || schema.contains("format")) out.insert("string");
        if (has(about_numbers)) out.insert("number");
    }
    if (out.empty()) out.insert(all_types.begin(), all_types.end());
    return out;
}

std::size_t index_of_type(std::string_view type) {
    return static_cast<std::size_t>(std::ranges::find(all_types, type) - all_types.begin());
}

bool names_all_types(const std::set<std::string_view>& types) {
    return types.size() == all_types.size();
}

bool has_type(const std::set<std::string_view>& types, const json::value& value) {
    std::string_view type = type_of(value);
    return types.contains(type) || (type == "integer" && types.contains("number"));
}

std::vector<const json::value*> constants_of(const json::object& schema) {
    std::vector<const json::value*> out;
    if (const json::value* one = schema.if_contains("const")) out.push_back(one);
    if (const json::value* list = schema.if_contains("enum"); list && list->is_array())
        for (const json::value& value : list->get_array()) out.push_back(&value);
    return out;
}

/// The names of required members. Complains about what is no name.
std::set<std::string> required_of(const json::object& schema, const std::string& path,
                                  schema_complaints& to) {
    std::set<std::string> out;
    const json::value* list = schema.if_contains("required");
    if (list == nullptr) return out;
    if (!list->is_array()) return to.give_up(path, "'required' is not a list"), out;
    for (const json::value& name : list->get_array()) {
        if (name.is_string())
            out.emplace(name.get_string());
        else
            to.give_up(path, "'required' holds what is not a name");
    }
    return out;
}

std::optional<std::string_view> pattern_of_format(const json::value& format) {
    for (const auto& [name, meaning] : formats())
        if (format == json::value(json::string_view(name))) return std::string_view(meaning);
    return std::nullopt;
}

namespace {

bool can_be_keyword(std::string_view name) {
    const auto is_letter = [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    };
    return !name.empty() && is_letter(name[0]) && std::ranges::all_of(name, [&](char c) {
        return is_letter(c) || (c >= '0' && c <= '9');
    });
}

}  // namespace

bool can_be_keywords(const boost::json::value& schema) {
    const boost::json::object* object = schema.if_object();
    if (!object) return false;
    for (const char* other :
         {"$ref", "anyOf", "oneOf", "allOf", "const", "enum", "propertyNames", "patternProperties"})
        if (object->contains(other)) return false;
    const boost::json::value* type = object->if_contains("type");
    if (type && *type != "object") return false;
    const boost::json::value* more = object->if_contains("additionalProperties");
    const boost::json::value* declared = object->if_contains("properties");
    const bool declares = declared && declared->is_object();
    // Members that are not declared could have any name. Without 'additionalProperties' they are
    // allowed only if none is declared.
    if (more ? *more != false : !declares) return false;
    if (const boost::json::value* needed = object->if_contains("required");
        needed && needed->is_array())
        for (const boost::json::value& name : needed->get_array())
            if (!name.is_string() || !declares ||
                !declared->get_object().contains(name.get_string()))
                return false;
    return !declares || std::ranges::all_of(declared->get_object(), [](const auto& property) {
        return can_be_keyword(property.key());
    });
}

}  // namespace semantic::engine
