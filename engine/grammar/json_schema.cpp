// A JSON Schema (draft 2020-12) as a grammar. What a grammar cannot hold to is refused by name.

#include <boost/json.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "engine/grammar/json_grammar.hpp"
#include "engine/text/output/json_text.hpp"

namespace semantic::engine {

namespace {

namespace json = boost::json;
using symbol = grammar_builder::symbol;
using sequence = grammar_builder::sequence;

constexpr int depth_max = 64;      // of schemas within schemas
constexpr int count_max = 10'000;  // minLength, maxItems and their like

// What other keywords of a schema would take back, or what a grammar would have to count.
constexpr std::array<std::string_view, 19> unsupported{"not",
                                                       "if",
                                                       "then",
                                                       "else",
                                                       "contains",
                                                       "minContains",
                                                       "maxContains",
                                                       "uniqueItems",
                                                       "patternProperties",
                                                       "propertyNames",
                                                       "multipleOf",
                                                       "dependentRequired",
                                                       "dependencies",
                                                       "minProperties",
                                                       "maxProperties",
                                                       "$dynamicRef",
                                                       "dependentSchemas",
                                                       "unevaluatedProperties",
                                                       "unevaluatedItems"};
// What only tells people something.
constexpr std::array<std::string_view, 12> annotations{
    "title",    "description", "default",  "examples",  "$schema", "$id",
    "$comment", "deprecated",  "readOnly", "writeOnly", "$anchor", "strict"};
constexpr std::array<std::string_view, 2> definitions{"$defs", "definitions"};

constexpr std::array<std::string_view, 7> all_types{"object",  "array",   "string", "number",
                                                    "integer", "boolean", "null"};

// Formats as patterns; others only tell people something, as the specification has it.
constexpr std::array<std::pair<std::string_view, std::string_view>, 6> formats{{
    {"date", "^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])$"},
    {"time", "^([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$"},
    {"date-time",
     "^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])T([01][0-9]|2[0-3]):[0-5][0-9]:"
     "[0-5][0-9](Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$"},
    {"uuid", "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"},
    {"ipv4",
     "^((25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])\\.){3}(25[0-5]|2[0-4][0-9]|"
     "1[0-9][0-9]|[1-9]?[0-9])$"},
    {"email", "^[a-z0-9]+(\\.[a-z0-9]+){0,3}@[a-z0-9]+(\\.[a-z0-9]+){0,3}\\.[a-z]{2,6}$"},
}};

template <class List>
bool among(const List& list, std::string_view name) {
    return std::find(list.begin(), list.end(), name) != list.end();
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
            return number == static_cast<double>(static_cast<std::int64_t>(number)) ? "integer"
                                                                                    : "number";
        }
        default:
            return "integer";
    }
}

bool has_type(const std::set<std::string_view>& types, const json::value& value) {
    std::string_view type = type_of(value);
    return types.contains(type) || (type == "integer" && types.contains("number"));
}

class schema_compiler {
  public:
    schema_compiler(json_grammar& out, const json::value& root)
        : out_(out), builder_(out.builder()), root_(root) {}

    symbol of(const json::value& schema, const std::string& path) {
        if (++depth_ > depth_max) refuse(path, "schemas are nested more than 64 deep");
        symbol made = dispatch(schema, path);
        --depth_;
        return made;
    }

  private:
    [[noreturn]] static void refuse(const std::string& path, const std::string& what) {
        throw unsupported_schema(path + ": " + what);
    }
    static std::string shown(const json::value& value) {
        std::string text = json::serialize(value);
        return text.size() <= 60 ? text : text.substr(0, 57) + "...";
    }

    symbol dispatch(const json::value& schema, const std::string& path) {
        if (const bool* all = schema.if_bool()) {
            if (!*all) refuse(path, "no value satisfies the schema false");
            return out_.any_value();
        }
        const json::object* object = schema.if_object();
        if (!object) refuse(path, "a schema is an object, true or false, not " + shown(schema));
        for (const auto& [key, value] : *object)
            if (among(unsupported, key) && !(key == "uniqueItems" && value == false))
                refuse(path, "'" + std::string(key) + "' is not supported");
        if (object->contains("$ref")) return reference(*object, path);
        if (object->contains("allOf")) return of(merged_all(*object, path), path);
        if (object->contains("anyOf")) return alternatives(*object, "anyOf", path);
        if (object->contains("oneOf")) return alternatives(*object, "oneOf", path);
        if (object->contains("const") || object->contains("enum")) return listed(*object, path);
        return typed(*object, path);
    }

    // $ref: "#", "#/$defs/name" and any other pointer into the same document.
    symbol reference(const json::object& schema, const std::string& path) {
        for (const auto& [key, value] : schema)
            if (key != "$ref" && !among(annotations, key) && !among(definitions, key))
                refuse(path, "'" + std::string(key) + "' beside '$ref' is not supported");
        const json::string* target = schema.at("$ref").if_string();
        if (!target || !target->starts_with("#"))
            refuse(path, "'$ref' is not a place in this schema: " + shown(schema.at("$ref")));
        std::string place(*target);
        auto [known, added] = references_.try_emplace(place, symbol{});
        if (!added) return known->second;
        boost::system::error_code error;
        const json::value* found =
            place == "#" ? &root_ : root_.find_pointer(place.substr(1), error);
        if (!found) refuse(path, "'$ref' names what is not there: " + place);
        symbol rule = known->second = builder_.new_rule();
        builder_.add(rule, {of(*found, place)});
        return rule;
    }

    // Both at once. What one of them says twice over must be the same, properties and required
    // lists apart.
    static json::object merged(json::object a, const json::object& b, const std::string& path) {
        for (const auto& [key, value] : b) {
            if (among(annotations, key)) continue;
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
                        refuse(path, "property '" + std::string(name) + "' is described twice");
                }
            } else if (mine->value() != value) {
                refuse(path, "'" + std::string(key) + "' is given twice, " + shown(mine->value()) +
                                 " and " + shown(value));
            }
        }
        return a;
    }

    const json::object& object_at(const json::value& schema, const std::string& path) const {
        const json::object* object = schema.if_object();
        if (!object) refuse(path, "a schema is an object here, not " + shown(schema));
        const json::value* target = object->if_contains("$ref");
        if (!target) return *object;
        boost::system::error_code error;
        const json::value* found =
            target->is_string() && target->get_string().starts_with("#")
                ? root_.find_pointer(std::string_view(target->get_string()).substr(1), error)
                : nullptr;
        if (!found || !found->is_object() || object->size() > 1)
            refuse(path, "this '$ref' is not supported: " + shown(*target));
        return found->get_object();
    }

    const json::array& list_at(const json::object& schema, std::string_view key,
                               const std::string& path) const {
        const json::array* list = schema.at(key).if_array();
        if (!list || list->empty())
            refuse(path, "'" + std::string(key) + "' is not a list with something in it");
        return *list;
    }

    json::value merged_all(const json::object& schema, const std::string& path) {
        json::object out = schema;
        out.erase("allOf");
        for (const json::value& part : list_at(schema, "allOf", path))
            out = merged(std::move(out), object_at(part, path + "/allOf"), path);
        return out;
    }

    symbol alternatives(const json::object& schema, std::string_view key, const std::string& path) {
        json::object base = schema;
        base.erase(key);
        for (std::string_view definition : definitions) base.erase(definition);
        bool bare = std::all_of(base.begin(), base.end(),
                                [](const auto& m) { return among(annotations, m.key()); });
        const json::array& list = list_at(schema, key, path);
        if (key == "oneOf") require_apart(list, path);
        std::vector<sequence> ways;
        for (std::size_t i = 0; i < list.size(); ++i) {
            std::string place = path + "/" + std::string(key) + "/" + std::to_string(i);
            if (bare)
                ways.push_back({of(list[i], place)});
            else
                ways.push_back({of(merged(base, object_at(list[i], place), place), place)});
        }
        return builder_.any_of(std::move(ways));
    }

    // oneOf: a value that two of them allow would satisfy neither, so it must be plain to see that
    // there is none.
    void require_apart(const json::array& list, const std::string& path) const {
        for (std::size_t i = 0; i < list.size(); ++i)
            for (std::size_t j = 0; j < i; ++j)
                if (!apart(object_at(list[i], path), object_at(list[j], path)))
                    refuse(path,
                           "'oneOf' is supported where its schemas differ in type, or in a "
                           "constant of a required property; use 'anyOf'");
    }

    bool apart(const json::object& a, const json::object& b) const {
        std::vector<const json::value*> of_a = constants(a), of_b = constants(b);
        if (!of_a.empty() && !of_b.empty())
            return std::none_of(of_a.begin(), of_a.end(), [&](const json::value* x) {
                return std::any_of(of_b.begin(), of_b.end(),
                                   [&](const json::value* y) { return *x == *y; });
            });
        std::set<std::string_view> types_a = types(a, ""), types_b = types(b, "");
        if (types_a.contains("number")) types_a.insert("integer");
        if (types_b.contains("number")) types_b.insert("integer");
        bool shared = std::any_of(types_a.begin(), types_a.end(),
                                  [&](std::string_view t) { return types_b.contains(t); });
        if (!shared) return true;
        if (types_a.size() != 1 || types_b.size() != 1 || *types_a.begin() != "object")
            return false;
        const json::value* mine = a.if_contains("properties");
        const json::value* theirs = b.if_contains("properties");
        if (!mine || !theirs || !mine->is_object() || !theirs->is_object()) return false;
        std::set<std::string> needed_a = required(a, ""), needed_b = required(b, "");
        for (const auto& [name, property] : mine->get_object()) {
            const json::value* other = theirs->get_object().if_contains(name);
            if (!other || !property.is_object() || !other->is_object()) continue;
            if (!needed_a.contains(std::string(name)) || !needed_b.contains(std::string(name)))
                continue;
            if (constants(property.get_object()).empty() || constants(other->get_object()).empty())
                continue;
            if (apart(property.get_object(), other->get_object())) return true;
        }
        return false;
    }

    static std::vector<const json::value*> constants(const json::object& schema) {
        std::vector<const json::value*> out;
        if (const json::value* only = schema.if_contains("const")) out.push_back(only);
        if (const json::value* list = schema.if_contains("enum"))
            if (const json::array* values = list->if_array())
                for (const json::value& value : *values) out.push_back(&value);
        return out;
    }

    symbol listed(const json::object& schema, const std::string& path) {
        for (const auto& [key, value] : schema)
            if (key != "const" && key != "enum" && key != "type" && !among(annotations, key) &&
                !among(definitions, key))
                refuse(path,
                       "'" + std::string(key) + "' beside 'enum' or 'const' is not supported");
        if (schema.contains("enum")) list_at(schema, "enum", path);
        std::set<std::string_view> allowed = types(schema, path);
        std::vector<sequence> ways;
        for (const json::value* value : constants(schema)) {
            if (!has_type(allowed, *value)) continue;
            if (schema.contains("const") && *value != schema.at("const")) continue;
            ways.push_back(builder_.literal(to_json_text(*value)));
        }
        if (ways.empty()) refuse(path, "no value of 'enum' or 'const' has the type");
        return builder_.any_of(std::move(ways));
    }

    // The types that a schema names, or those that its other keywords are about, or all.
    static std::set<std::string_view> types(const json::object& schema, const std::string& path) {
        std::set<std::string_view> out;
        auto take = [&](const json::value& name) {
            auto known = name.is_string() ? std::find(all_types.begin(), all_types.end(),
                                                      std::string_view(name.get_string()))
                                          : all_types.end();
            if (known == all_types.end()) refuse(path, "'type' is not known: " + shown(name));
            out.insert(*known);
        };
        if (const json::value* type = schema.if_contains("type")) {
            if (const json::array* list = type->if_array()) {
                if (list->empty()) refuse(path, "'type' is an empty list");
                for (const json::value& name : *list) take(name);
            } else {
                take(*type);
            }
            return out;
        }
        auto has = [&](std::initializer_list<std::string_view> keys) {
            return std::any_of(keys.begin(), keys.end(),
                               [&](std::string_view key) { return schema.contains(key); });
        };
        if (has({"properties", "required", "additionalProperties"})) out.insert("object");
        if (has({"items", "prefixItems", "minItems", "maxItems"})) out.insert("array");
        if (has({"pattern", "minLength", "maxLength", "format"})) out.insert("string");
        if (has({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}))
            out.insert("number");
        if (out.empty()) out.insert(all_types.begin(), all_types.end());
        return out;
    }

    symbol typed(const json::object& schema, const std::string& path) {
        std::set<std::string_view> allowed = types(schema, path);
        if (allowed.size() == all_types.size()) return out_.any_value();
        std::vector<sequence> ways;
        for (std::string_view type : allowed) {
            if (type == "object") ways.push_back({object(schema, path)});
            if (type == "array") ways.push_back({array(schema, path)});
            if (type == "string") ways.push_back({string(schema, path)});
            if (type == "number") ways.push_back({number(schema, path, true)});
            if (type == "integer" && !allowed.contains("number"))
                ways.push_back({number(schema, path, false)});
            if (type == "boolean") ways.push_back({out_.boolean()});
            if (type == "null") ways.push_back({out_.null()});
        }
        return builder_.any_of(std::move(ways));
    }

    // A bound on a count; -1 when there is none.
    static int count(const json::object& schema, std::string_view key, const std::string& path) {
        const json::value* value = schema.if_contains(key);
        if (!value) return -1;
        boost::system::error_code error;
        int number = value->to_number<int>(error);
        if (error || number < 0 || number > count_max)
            refuse(path, "'" + std::string(key) +
                             "' is not a whole number from 0 to 10000: " + shown(*value));
        return number;
    }

    symbol string(const json::object& schema, const std::string& path) {
        int least = std::max(0, count(schema, "minLength", path));
        int most = count(schema, "maxLength", path);
        std::string_view pattern;
        if (const json::value* given = schema.if_contains("pattern")) {
            if (!given->is_string()) refuse(path, "'pattern' is not a string");
            pattern = given->get_string();
        }
        if (const json::value* format = schema.if_contains("format"))
            for (const auto& [name, meaning] : formats)
                if (*format == json::value(json::string_view(name))) {
                    if (!pattern.empty())
                        refuse(path, "'pattern' beside 'format' is not supported");
                    pattern = meaning;
                }
        if (pattern.empty()) {
            if (least == 0 && most < 0) return out_.string();
            if (most >= 0 && most < least) refuse(path, "'maxLength' is less than 'minLength'");
            return builder_.any_of({builder_.literal("\"") +
                                    builder_.repeat({out_.character()}, least, most) +
                                    builder_.literal("\"")});
        }
        if (least > 0 || most >= 0)
            refuse(path,
                   "'minLength' and 'maxLength' beside 'pattern' or 'format' are not "
                   "supported");
        try {
            return strings_matching(out_, pattern);
        } catch (const unsupported_schema& error) {
            refuse(path, error.what());
        }
    }

    // The bound as a plain decimal.
    static std::string decimal(const json::value& value, std::string_view key,
                               const std::string& path) {
        if (const std::int64_t* whole = value.if_int64()) return std::to_string(*whole);
        if (const std::uint64_t* whole = value.if_uint64()) return std::to_string(*whole);
        const double* number = value.if_double();
        if (!number) refuse(path, "'" + std::string(key) + "' is not a number");
        std::array<char, 400> text{};  // the longest double without exponent has 327 characters
        auto end = std::to_chars(text.data(), text.data() + text.size(), *number,
                                 std::chars_format::fixed);
        return {text.data(), end.ptr};
    }

    symbol number(const json::object& schema, const std::string& path, bool fractions) {
        number_range range;
        auto bound = [&](std::string_view key, std::string& text, bool& excluded, bool excludes) {
            const json::value* value = schema.if_contains(key);
            if (!value) return;
            if (!text.empty())
                refuse(path, "an exclusive bound beside an inclusive one is not supported");
            text = decimal(*value, key, path);
            excluded = excludes;
        };
        bound("minimum", range.least, range.least_excluded, false);
        bound("exclusiveMinimum", range.least, range.least_excluded, true);
        bound("maximum", range.most, range.most_excluded, false);
        bound("exclusiveMaximum", range.most, range.most_excluded, true);
        if (range.least.empty() && range.most.empty())
            return fractions ? out_.number() : out_.integer();
        try {
            return numbers_in_range(builder_, range, fractions);
        } catch (const unsupported_schema& error) {
            refuse(path, error.what());
        }
    }

    symbol array(const json::object& schema, const std::string& path) {
        int least = std::max(0, count(schema, "minItems", path));
        int most = count(schema, "maxItems", path);
        if (most >= 0 && most < least) refuse(path, "'maxItems' is less than 'minItems'");
        symbol item = out_.any_value();
        bool no_more = false;
        if (const json::value* items = schema.if_contains("items")) {
            no_more = *items == false;
            if (items->is_array()) refuse(path, "'items' is a list: use 'prefixItems'");
            if (!no_more) item = of(*items, path + "/items");
        }
        const json::value* first = schema.if_contains("prefixItems");
        if (!first) {
            if (no_more) most = 0;
            return out_.array_of(item, least, most);
        }
        if (!first->is_array()) refuse(path, "'prefixItems' is not a list");
        // All of the first ones, then others as far as they may be.
        sequence all = builder_.literal("[") + out_.blank();
        const json::array& fixed = first->get_array();
        auto fixed_count = static_cast<int>(fixed.size());
        if (most >= 0 && most < fixed_count)
            refuse(path, "'maxItems' is less than the number of 'prefixItems'");
        for (std::size_t i = 0; i < fixed.size(); ++i) {
            if (i > 0) all = all + out_.comma();
            all = all + of(fixed[i], path + "/prefixItems/" + std::to_string(i));
        }
        if (no_more || !schema.contains("items")) most = fixed_count;
        if (least > fixed_count && most == fixed_count)
            refuse(path, "'minItems' is more than the number of 'prefixItems'");
        if (most != fixed_count && fixed_count > 0)
            all = all + builder_.repeat({out_.comma(), item}, std::max(0, least - fixed_count),
                                        most < 0 ? -1 : most - fixed_count);
        return builder_.any_of({all + out_.blank() + builder_.literal("]")});
    }

    static std::set<std::string> required(const json::object& schema, const std::string& path) {
        std::set<std::string> out;
        const json::value* list = schema.if_contains("required");
        if (!list) return out;
        if (!list->is_array()) refuse(path, "'required' is not a list");
        for (const json::value& name : list->get_array()) {
            if (!name.is_string()) refuse(path, "'required' holds what is not a name");
            out.emplace(name.get_string());
        }
        return out;
    }

    struct declared_property {
        std::string name;
        symbol value;
        bool required;
    };

    symbol object(const json::object& schema, const std::string& path) {
        std::set<std::string> needed = required(schema, path);
        std::vector<declared_property> properties;
        if (const json::value* declared = schema.if_contains("properties")) {
            if (!declared->is_object()) refuse(path, "'properties' is not an object");
            for (const auto& [name, value] : declared->get_object()) {
                std::string key(name);
                properties.push_back(
                    {key, of(value, path + "/properties/" + key), needed.erase(key) > 0});
            }
        }
        const json::value* more = schema.if_contains("additionalProperties");
        bool no_more = more && *more == false;
        if (no_more && !needed.empty())
            refuse(path, "'required' names '" + *needed.begin() +
                             "', which 'properties' lacks and 'additionalProperties' forbids");
        std::optional<symbol> others;
        if (more && !no_more) others = of(*more, path + "/additionalProperties");
        for (const std::string& name : needed)
            properties.push_back({name, others ? *others : out_.any_value(), true});
        // What a schema neither declares nor forbids is allowed only where it declares nothing.
        if (!more && properties.empty()) others = out_.any_value();
        return object_of(properties, others);
    }

    // From the last property to the first: what may follow when nothing, and when something, has
    // been written.
    symbol object_of(const std::vector<declared_property>& properties,
                     const std::optional<symbol>& others) {
        std::vector<sequence> first{{}}, later{{}};
        if (others) {
            sequence member{other_key(properties), out_.colon(), *others};
            symbol more = builder_.repeat(sequence{out_.comma()} + member, 0, -1);
            first.push_back(member + more);
            later = {{more}};
        }
        symbol at_first = builder_.any_of(std::move(first));
        symbol at_later = builder_.any_of(std::move(later));
        for (auto p = properties.rbegin(); p != properties.rend(); ++p) {
            sequence member = builder_.literal(quoted(p->name)) + out_.colon() + p->value;
            std::vector<sequence> now_first{member + at_later};
            std::vector<sequence> now_later{sequence{out_.comma()} + member + at_later};
            if (!p->required) {
                now_first.push_back({at_first});
                now_later.push_back({at_later});
            }
            at_first = builder_.any_of(std::move(now_first));
            at_later = builder_.any_of(std::move(now_later));
        }
        return builder_.any_of({builder_.literal("{") + out_.blank() + at_first + out_.blank() +
                                builder_.literal("}")});
    }

    // A key that is none of the declared ones: plain ASCII, so that nothing is spelled in two ways.
    symbol other_key(const std::vector<declared_property>& properties) {
        std::set<std::string> names;
        for (const declared_property& p : properties) names.insert(p.name);
        return builder_.any_of({builder_.literal("\"") + key_behind("", names)});
    }

    static byte_set key_bytes() {
        byte_set set;
        for (std::size_t c = 0x20; c < 0x7f; ++c) set.set(c);
        set.reset('"');
        set.reset('\\');
        return set;
    }

    symbol key_behind(const std::string& written, const std::set<std::string>& names) {
        std::vector<sequence> ways;
        if (!names.contains(written)) ways.push_back(builder_.literal("\""));
        byte_set free = key_bytes();
        std::set<char> next;
        for (auto name = names.lower_bound(written);
             name != names.end() && name->starts_with(written); ++name)
            if (name->size() > written.size()) next.insert((*name)[written.size()]);
        for (char c : next) {
            if (!key_bytes().test(static_cast<unsigned char>(c))) continue;
            free.reset(static_cast<unsigned char>(c));
            ways.push_back(builder_.literal(std::string(1, c)) + key_behind(written + c, names));
        }
        ways.push_back(
            sequence{builder_.bytes(free), builder_.repeat({builder_.bytes(key_bytes())}, 0, -1)} +
            builder_.literal("\""));
        return builder_.any_of(std::move(ways));
    }

    json_grammar& out_;
    grammar_builder& builder_;
    const json::value& root_;
    std::map<std::string, symbol> references_;
    int depth_ = 0;
};

}  // namespace

grammar_builder::symbol json_grammar::of_schema(const boost::json::value& schema) {
    return schema_compiler(*this, schema).of(schema, "#");
}

}  // namespace semantic::engine
