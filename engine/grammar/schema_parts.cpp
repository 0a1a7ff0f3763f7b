#include "engine/grammar/schema_parts.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "engine/grammar/json_grammar.hpp"

namespace semantic::engine {

namespace {

namespace json = boost::json;

constexpr std::size_t complaints_max = 64;
constexpr std::size_t place_bytes_max = 200;

// What other keywords of a schema would take back, or what a grammar would have to remember.
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

constexpr std::array<std::string_view, 5> lower_bounds{"minimum", "exclusiveMinimum", "minLength",
                                                       "minItems", "minProperties"};
constexpr std::array<std::string_view, 5> upper_bounds{"maximum", "exclusiveMaximum", "maxLength",
                                                       "maxItems", "maxProperties"};

/// Eight groups, or fewer around "::" (RFC 4291, section 2.2).
std::string ipv6() {
    const std::string group = "[0-9A-Fa-f]{1,4}";
    std::string all =
        "^(" + group + ":){7}" + group + "$|^(" + group + ":){1,7}:$|^:((:" + group + "){1,7}|:)$";
    for (int before = 1; before < 7; ++before)
        all += "|^(" + group + ":){1," + std::to_string(before) + "}(:" + group + "){1," +
               std::to_string(7 - before) + "}$";
    return all;
}

/// Formats as patterns.
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

// Beside 'pattern' in what is merged, a list of others; no keyword of anybody's.
constexpr std::string_view pattern_beside = "pattern\x01";

template <class List, class T>
bool among(const List& list, const T& one) {
    return std::find(list.begin(), list.end(), one) != list.end();
}

std::string_view type_of(const json::value& value) {
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

/// Whether the bound was joined.
bool join_bound(std::string_view key, json::value& mine, const json::value& other) {
    const bool is_lower = among(lower_bounds, key);
    if (!is_lower && !among(upper_bounds, key)) return false;
    if (!mine.is_number() || !other.is_number()) return false;
    const bool more = other.to_number<double>() > mine.to_number<double>();
    if (more == is_lower) mine = other;
    return true;
}

}  // namespace

void schema_complaints::give_up(const std::string& path, const std::string& what) {
    std::string sentence = shortened(path, place_bytes_max) + ": " + what;
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

std::string shown(const json::value& value) { return shortened(json::serialize(value)); }

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

json::object merged(json::object a, const json::object& b, const std::string& path,
                    schema_complaints& to) {
    for (const auto& [key, value] : b) {
        if (says_nothing(key)) continue;
        auto mine = a.find(key);
        if (mine == a.end()) {
            a.emplace(key, value);
        } else if (key == "required" && mine->value().is_array() && value.is_array()) {
            for (const json::value& name : value.get_array())
                mine->value().get_array().push_back(name);
        } else if (key == "properties" && mine->value().is_object() && value.is_object()) {
            for (const auto& [name, property] : value.get_object()) {
                auto [it, added] = mine->value().get_object().emplace(name, property);
                if (!added && it->value() != property)
                    it->value() = {{"allOf", json::array{it->value(), property}}};
            }
        } else if (key == "enum" && mine->value().is_array() && value.is_array()) {
            json::array common;
            for (const json::value& one : mine->value().get_array())
                if (among(value.get_array(), one)) common.push_back(one);
            if (common.empty()) to.give_up(path, "no value is in both lists of 'enum'");
            if (!common.empty()) mine->value() = std::move(common);
        } else if (key == pattern_beside && mine->value().is_array() && value.is_array()) {
            for (const json::value& one : value.get_array())
                mine->value().get_array().push_back(one);
        } else if (key == "pattern" && mine->value().is_string() && value.is_string()) {
            if (mine->value() == value) continue;
            const json::value other = value;
            json::value& list = a.emplace(pattern_beside, json::array()).first->value();
            if (list.is_array()) list.get_array().push_back(other);
        } else if (mine->value() != value && !join_bound(key, mine->value(), value)) {
            to.give_up(path, "'" + std::string(key) + "' is given twice, " + shown(mine->value()) +
                                 " and " + shown(value));
        }
    }
    return a;
}

std::vector<std::string> patterns_beside(const json::object& schema) {
    std::vector<std::string> out;
    const json::value* list = schema.if_contains(pattern_beside);
    if (!list || !list->is_array()) return out;
    for (const json::value& each : list->get_array())
        if (each.is_string()) out.emplace_back(each.get_string());
    return out;
}

bool are_apart(const json::object& a, const json::object& b) {
    std::vector<std::string> unknown;
    schema_complaints quiet(&unknown);
    std::vector<const json::value*> of_a = constants_of(a), of_b = constants_of(b);
    if (!of_a.empty() && !of_b.empty())
        return std::none_of(of_a.begin(), of_a.end(), [&](const json::value* x) {
            return std::any_of(of_b.begin(), of_b.end(),
                               [&](const json::value* y) { return *x == *y; });
        });
    std::set<std::string_view> types_a = types_of(a, "", quiet), types_b = types_of(b, "", quiet);
    if (types_a.contains("number")) types_a.insert("integer");
    if (types_b.contains("number")) types_b.insert("integer");
    bool shared = std::any_of(types_a.begin(), types_a.end(),
                              [&](std::string_view t) { return types_b.contains(t); });
    if (!shared) return true;
    if (types_a.size() != 1 || types_b.size() != 1 || *types_a.begin() != "object") return false;
    const json::value* mine = a.if_contains("properties");
    const json::value* theirs = b.if_contains("properties");
    if (!mine || !theirs || !mine->is_object() || !theirs->is_object()) return false;
    std::set<std::string> needed_a = required_of(a, "", quiet),
                          needed_b = required_of(b, "", quiet);
    for (const auto& [name, property] : mine->get_object()) {
        const json::value* other = theirs->get_object().if_contains(name);
        if (!other || !property.is_object() || !other->is_object()) continue;
        if (!needed_a.contains(std::string(name)) || !needed_b.contains(std::string(name)))
            continue;
        if (constants_of(property.get_object()).empty() ||
            constants_of(other->get_object()).empty())
            continue;
        if (are_apart(property.get_object(), other->get_object())) return true;
    }
    return false;
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
