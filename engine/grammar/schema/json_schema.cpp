// SPDX-License-Identifier: Apache-2.0
// Compiles a JSON Schema (draft 2020-12) to a grammar. Keywords that a grammar cannot enforce are
// reported.

#include <boost/json.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "engine/grammar/json_grammar.hpp"
#include "engine/grammar/schema/schema_references.hpp"
#include "engine/grammar/schema/schema_strings.hpp"
#include "engine/grammar/schema/schemas_apart.hpp"
#include "engine/grammar/schema_parts.hpp"
#include "engine/grammar/string_pattern.hpp"
#include "engine/grammar/values/json_values.hpp"
#include "engine/types/exact_json.hpp"

namespace semantic::engine {

namespace {

namespace json = boost::json;
using symbol = grammar_builder::symbol;
using sequence = grammar_builder::sequence;

constexpr int count_max = 1 << 24;        // minLength, maxItems: no answer is longer
constexpr int member_states_max = 5'000;  // number of properties times number of counts

// Paths are cut at this length; messages show less.
constexpr std::size_t path_bytes_max = 512;

/// The path of a part of the schema at `path`, for error messages.
std::string below(const std::string& path, std::string_view keyword, std::string_view name = {}) {
    std::string out = path;
    for (std::string_view more : {keyword, name})
        if (out.size() < path_bytes_max) out += more.substr(0, path_bytes_max);
    return out;
}

bool is_schema_list(const json::object& schema, std::string_view key) {
    const json::value* list = schema.if_contains(key);
    return list != nullptr && list->is_array();
}

// The work for each schema, such as its set of types: about a microsecond.
constexpr std::size_t steps_per_schema = 10;
// Memory of a cached name without its text.
constexpr std::size_t reference_bytes = 96;

class schema_compiler {
  public:
    /// `are_arguments`: the root is written as a call's arguments; it must be a schema of an
    /// object.
    schema_compiler(json_grammar& out, const json::value& root, std::vector<std::string>* not_held,
                    bool are_arguments)
        : out_(out),
          builder_(out.builder()),
          budget_(builder_.budget()),
          complaints_(not_held),
          places_(root, budget_, complaints_),
          are_arguments_(are_arguments) {}

    symbol compile(const json::value& schema, const std::string& path) {
        if (depth_ == schema_depth_max) {
            complaints_.give_up(path, "schemas are nested more than 64 deep");
            return out_.any_value();
        }
        budget_.charge_steps(steps_per_schema);
        ++depth_;
        symbol made = dispatch(schema, path);
        --depth_;
        return made;
    }

  private:
    /// The rule of a schema, by its keywords. What is not supported is complained about, and does
    /// not restrict the value.
    symbol dispatch(const json::value& schema, const std::string& path) {
        if (const bool* all = schema.if_bool()) {
            if (!*all) complaints_.give_up(path, "no value satisfies the schema false");
            return out_.any_value();
        }
        const json::object* object = schema.if_object();
        if (!object) {
            complaints_.give_up(path, "a schema is an object, true or false, not " + shown(schema));
            return out_.any_value();
        }
        budget_.charge_steps(object->size());
        for (const auto& [key, value] : *object)
            if (is_unsupported(key))
                complaints_.give_up(path, "'" + std::string(key) + "' is not supported");
        if (object->contains("$ref")) return reference(*object, path);
        if (has_list(*object, "allOf", path)) return merged_all(*object, path);
        if (has_list(*object, "anyOf", path)) return alternatives(*object, "anyOf", path);
        if (has_list(*object, "oneOf", path)) return alternatives(*object, "oneOf", path);
        if (object->contains("const") || has_list(*object, "enum", path))
            return listed(*object, path);
        return typed(*object, path);
    }

    bool has_list(const json::object& schema, std::string_view key, const std::string& path) {
        if (!schema.contains(key)) return false;
        if (is_schema_list(schema, key) && !schema.at(key).get_array().empty()) return true;
        complaints_.give_up(path, "'" + std::string(key) + "' is not a list with something in it");
        return false;
    }

    // Keywords next to '$ref' count too.
    json::object beside_reference(const json::object& schema) {
        json::object out;
        for (const auto& [key, value] : schema)
            if (key != "$ref" && !says_nothing(key)) {
                memory_.add(charge_walk(value, budget_) + member_bytes(key));
                out.emplace(key, value);
            }
        return out;
    }

    // Each target, together with the keywords next to the '$ref', is one rule, because schemas may
    // contain themselves.
    symbol reference(const json::object& schema, const std::string& path) {
        const json::object siblings = beside_reference(schema);
        const json::value* target = places_.target_of(schema, path);
        if (!target) return compile(siblings, path);
        std::string place(schema.at("$ref").get_string());
        std::string name = place;
        if (!siblings.empty()) name += " " + json::serialize(siblings);
        memory_.add(name.size() + reference_bytes);
        auto [known, added] = references_.try_emplace(std::move(name), symbol{});
        if (!added) return known->second;
        symbol rule = known->second = builder_.new_rule();
        // A target that is false or no schema decides alone: keywords next to it cannot widen it.
        if (siblings.empty() || (!target->is_object() && *target != true)) {
            builder_.add(rule, {compile(*target, place)});
        } else {
            schema_merge whole(budget_, path, complaints_);
            for (const json::object* part : places_.parts_of(*target, place)) whole.add(*part);
            whole.add(siblings);
            builder_.add(rule, {compile(whole.whole(), path)});
        }
        return rule;
    }

    symbol merged_all(const json::object& schema, const std::string& path) {
        schema_merge whole(budget_, path, complaints_);
        whole.add(schema, "allOf");
        for (const json::value& each : schema.at("allOf").get_array())
            for (const json::object* part : places_.parts_of(each, below(path, "/allOf")))
                whole.add(*part);
        return compile(whole.whole(), path);
    }

    /// The rule of anyOf or oneOf (`key`): one of the schemas, each merged with the schema around
    /// them. The schemas of oneOf must exclude one another.
    symbol alternatives(const json::object& schema, std::string_view key, const std::string& path) {
        const bool bare = std::ranges::all_of(schema, [&](const auto& member) {
            return member.key() == key || says_nothing(member.key());
        });
        const json::array& list = schema.at(key).get_array();
        if (key == "oneOf") require_apart(list, path);
        std::vector<sequence> ways;
        for (std::size_t i = 0; i < list.size(); ++i) {
            const std::string place = below(path, "/" + std::string(key) + "/", std::to_string(i));
            if (bare) {
                ways.push_back({compile(list[i], place)});
                continue;
            }
            schema_merge whole(budget_, place, complaints_);
            whole.add(schema, key);
            for (const json::object* part : places_.parts_of(list[i], place)) whole.add(*part);
            ways.push_back({compile(whole.whole(), place)});
        }
        return builder_.any_of(std::move(ways));
    }

    // oneOf: a value that two of them allow does not satisfy the schema, so it has to be certain
    // that there is no such value.
    void require_apart(const json::array& list, const std::string& path) {
        std::vector<schema_view> views;
        std::vector<const json::object*> each;
        for (const json::value& one : list) {
            views.push_back(places_.object_at(one, path));
            each.push_back(views.back().object);
        }
        if (!are_apart(each, budget_))
            complaints_.give_up(path,
                                "'oneOf' is supported where its schemas differ in type, or in a "
                                "constant of a required property; use 'anyOf'");
    }

    /// The rule of enum or const: one of the values that have an allowed type.
    symbol listed(const json::object& schema, const std::string& path) {
        for (const auto& [key, value] : schema)
            if (asserts(key))
                complaints_.give_up(
                    path, "'" + std::string(key) + "' beside 'enum' or 'const' is not supported");
        std::set<std::string_view> allowed = types_of(schema, path, complaints_);
        const symbol one = builder_.new_rule();
        const std::vector<const json::value*> values = constants_of(schema);
        bool is_empty = true;
        // First the values that have an allowed type; if there is none, all of them.
        for (const bool of_any_type : {false, true}) {
            for (const json::value* value : values) {
                budget_.charge_steps();
                if (schema.contains("const")) {
                    charge_walk(*value, budget_);
                    if (*value != schema.at("const")) continue;
                }
                if (!of_any_type && !has_type(allowed, *value)) continue;
                charge_walk(*value, budget_);
                builder_.add(one, out_.constant(*value));
                is_empty = false;
            }
            if (!is_empty) return one;
            if (!of_any_type)
                complaints_.give_up(path, "no value of 'enum' or 'const' has the type");
        }
        return one;
    }

    /// The rule of a schema by its types: one of them.
    symbol typed(const json::object& schema, const std::string& path) {
        std::set<std::string_view> allowed = types_of(schema, path, complaints_);
        if (names_all_types(allowed)) return out_.any_value();
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

    // Reads a bound on a count; `otherwise` if there is none, or an upper one that no answer
    // reaches.
    int count(const json::object& schema, std::string_view key, int otherwise,
              const std::string& path) {
        const json::value* value = schema.if_contains(key);
        if (!value) return otherwise;
        const double number = value->is_number() ? value->to_number<double>() : -1;
        const bool is_whole = number >= 0 && number == std::floor(number);
        if (is_whole && number <= count_max) return static_cast<int>(number);
        // Only upper bounds have a negative `otherwise`: without one any number is allowed.
        const bool is_upper = otherwise < 0;
        if (!is_whole || !is_upper)
            complaints_.give_up(path,
                                "'" + std::string(key) +
                                    "' is not a whole number from 0 to 16777216: " + shown(*value));
        return otherwise;
    }
    // The upper bound, where it is not below the lower one.
    int most_of(const json::object& schema, std::string_view key, int least,
                std::string_view least_key, const std::string& path) {
        const int most = count(schema, key, -1, path);
        if (most < 0 || most >= least) return most;
        complaints_.give_up(
            path, "'" + std::string(key) + "' is less than '" + std::string(least_key) + "'");
        return -1;
    }

    symbol string(const json::object& schema, const std::string& path) {
        const int least = count(schema, "minLength", 0, path);
        const int most = most_of(schema, "maxLength", least, "minLength", path);
        return strings_.matching(schema, least, most, path);
    }

    // The result of make(); nothing, with a complaint, if that is not supported.
    template <class Make>
    auto held(const std::string& path, Make make) -> std::optional<decltype(make())> {
        try {
            return make();
        } catch (const unsupported_schema& error) {
            complaints_.give_up(path, error.what());
            return std::nullopt;
        }
    }
    // The number as a plain decimal; nothing if it is not a number.
    std::string decimal(const json::object& schema, std::string_view key, const std::string& path) {
        const json::value* value = schema.if_contains(key);
        if (!value) return {};
        if (const std::int64_t* whole = value->if_int64()) return std::to_string(*whole);
        if (const std::uint64_t* whole = value->if_uint64()) return std::to_string(*whole);
        if (const double* number = value->if_double()) {
            std::array<char, 400> text{};  // the longest double without exponent has 327 characters
            auto end = std::to_chars(text.data(), text.data() + text.size(), *number,
                                     std::chars_format::fixed);
            return {text.data(), end.ptr};
        }
        complaints_.give_up(path, "'" + std::string(key) + "' is not a number");
        return {};
    }

    // The narrower of an inclusive and an exclusive bound.
    void bound(const json::object& schema, std::string_view inclusive, std::string_view exclusive,
               bool is_least, const std::string& path, std::string& text, bool& excluded) {
        text = decimal(schema, inclusive, path);
        const std::string other = decimal(schema, exclusive, path);
        if (other.empty()) return;
        const double mine = text.empty() ? 0.0 : schema.at(inclusive).to_number<double>();
        const double theirs = schema.at(exclusive).to_number<double>();
        excluded = text.empty() || (is_least ? theirs >= mine : theirs <= mine);
        if (excluded) text = other;
    }

    symbol number(const json::object& schema, const std::string& path, bool fractions) {
        number_range range;
        if (!fractions) range.fraction_digits = 0;
        bound(schema, "minimum", "exclusiveMinimum", true, path, range.least, range.least_excluded);
        bound(schema, "maximum", "exclusiveMaximum", false, path, range.most, range.most_excluded);
        const std::string step = decimal(schema, "multipleOf", path);
        if (step.empty() && range.least.empty() && range.most.empty())
            return fractions ? out_.number() : out_.integer();
        // Equal descriptions of numbers share a rule.
        std::string name = fractions ? "number" : "integer";
        for (const std::string& each :
             {range.least, std::string(range.least_excluded ? "<" : "<="), range.most,
              std::string(range.most_excluded ? "<" : "<="), step})
            name += ' ' + each;
        if (const auto known = numbers_.find(name); known != numbers_.end()) return known->second;
        const std::size_t complaints = complaints_.count();
        const symbol made = number_within(range, step, path, fractions);
        // With a complaint it is made again, so that the complaint names each path.
        if (complaints_.count() == complaints) {
            memory_.add(name.size() + reference_bytes);
            numbers_.emplace(std::move(name), made);
        }
        return made;
    }
    symbol number_within(const number_range& range, const std::string& step,
                         const std::string& path, bool fractions) {
        if (!step.empty())
            if (auto made = held(path, [&] { return multiples_in_range(builder_, range, step); }))
                return *made;
        if (!range.least.empty() || !range.most.empty())
            if (auto made = held(path, [&] { return numbers_in_range(builder_, range); }))
                return *made;
        return fractions ? out_.number() : out_.integer();
    }

    /// The rule of an array by prefixItems, items and the bounds of its length.
    symbol array(const json::object& schema, const std::string& path) {
        const int least = count(schema, "minItems", 0, path);
        int most = most_of(schema, "maxItems", least, "minItems", path);
        const json::value* unique = schema.if_contains("uniqueItems");
        if (unique && *unique != false && most != 0 && most != 1) {
            if (auto made = distinct(schema, least, most, path)) return *made;
            complaints_.give_up(path, "'uniqueItems' is not supported");
        }
        // Older drafts have a list in 'items' instead of 'prefixItems'.
        const bool is_old = is_schema_list(schema, "items");
        const char* first_key = is_old ? "items" : "prefixItems";
        const json::value* first = schema.if_contains(first_key);
        const json::value* items = schema.if_contains(is_old ? "additionalItems" : "items");
        if (first && !first->is_array()) {
            complaints_.give_up(path, "'prefixItems' is not a list");
            first = nullptr;
        }
        const bool no_more = items && *items == false;
        symbol item = out_.any_value();
        if (items && !no_more)
            item = compile(*items, below(path, is_old ? "/additionalItems" : "/items"));
        const int declared = first ? static_cast<int>(first->get_array().size()) : 0;
        if (declared == 0) return out_.array_of(item, least, no_more ? 0 : most);
        // Beyond its declared elements a tuple goes on only if 'items' or 'minItems' says so.
        const bool has_others = !no_more && (items || least > declared);
        if (!has_others) most = most < 0 ? declared : std::min(most, declared);
        if (most >= 0 && least > most)
            complaints_.give_up(path, "'minItems' is more than the number of 'prefixItems'");
        return tuple(first->get_array(), below(path, "/", first_key), least, most, item);
    }

    // Elements that are all different, where 'items' lists what they may be.
    std::optional<symbol> distinct(const json::object& schema, int least, int most,
                                   const std::string& path) {
        const json::value* items = schema.if_contains("items");
        if (!items || !items->is_object() || schema.contains("prefixItems")) return std::nullopt;
        const schema_view item = places_.object_at(*items, below(path, "/items"));
        for (const auto& [key, value] : *item)
            if (key != "enum" && key != "const" && key != "type" && !says_nothing(key))
                return std::nullopt;
        growing_charge memory(budget_);
        json::array values;
        const std::set<std::string_view> types =
            types_of(*item, below(path, "/items"), complaints_);
        if (item->contains("const") || is_schema_list(*item, "enum")) {
            for (const json::value* value : constants_of(*item)) {
                memory.add(2 * charge_walk(*value, budget_));
                if (has_type(types, *value) &&
                    (!item->contains("const") || *value == item->at("const")))
                    values.push_back(*value);
            }
        } else if (types.size() == 1 && types.contains("boolean")) {
            values = {true, false};
        }
        if (values.empty()) return std::nullopt;
        return held(path, [&] { return distinct_items(out_, values, least, most); });
    }

    // All of the first ones, as far as there may be so many, then others.
    symbol tuple(const json::array& first, const std::string& place, int least, int most,
                 symbol item) {
        const int declared = static_cast<int>(first.size());
        const int fixed = most < 0 ? declared : std::min(most, declared);
        sequence all = builder_.literal("[") + out_.blank();
        for (int i = 0; i < fixed; ++i) {
            if (i > 0) all = std::move(all) + out_.comma();
            all = std::move(all) +
                  compile(first[static_cast<std::size_t>(i)], below(place, "/", std::to_string(i)));
        }
        if (most != fixed)
            all = all + builder_.repeat({out_.comma(), item}, std::max(0, least - fixed),
                                        most < 0 ? -1 : most - fixed);
        return builder_.any_of({all + out_.blank() + builder_.literal("]")});
    }

    /// The rule of an object: its declared members, then those that are only required or named by
    /// 'propertyNames', then others. Only the root of a call's arguments is written as these.
    symbol object(const json::object& schema, const std::string& path) {
        object_rules rules;
        rules.are_arguments = are_arguments_ && depth_ == 1;
        std::set<std::string> needed = required_of(schema, path, complaints_);
        const json::value* more = schema.if_contains("additionalProperties");
        bool no_more = more && *more == false;
        std::optional<symbol> others;
        if (more && !no_more) others = compile(*more, below(path, "/additionalProperties"));
        auto names = property_names(schema, path);
        if (const json::value* declared = schema.if_contains("properties")) {
            if (!declared->is_object()) complaints_.give_up(path, "'properties' is not an object");
            if (declared->is_object())
                for (const auto& [name, value] : declared->get_object()) {
                    std::string key(name);
                    if (names.only && !names.only->contains(key)) continue;
                    rules.properties.push_back({key,
                                                compile(value, below(path, "/properties/", key)),
                                                needed.erase(key) > 0});
                    if (names.only) names.only->erase(key);
                }
        }
        const symbol other = others ? *others : out_.any_value();
        if (names.only) {
            if (!no_more)
                for (const std::string& name : *names.only)
                    rules.properties.push_back({name, other, needed.erase(name) > 0});
            others.reset();
            no_more = true;
        }
        if (no_more && !needed.empty()) {
            complaints_.give_up(path, "'required' names '" + *needed.begin() +
                                          "', which 'properties' lacks and "
                                          "'additionalProperties' or 'propertyNames' forbids");
            needed.clear();
        }
        for (const std::string& name : needed) rules.properties.push_back({name, other, true});
        add_others(schema, path, names.key, no_more, others, rules);
        count_members(schema, path, rules);
        return objects_of(out_, rules);
    }

    // Members that a schema neither declares nor forbids are allowed only if it declares none.
    void add_others(const json::object& schema, const std::string& path,
                    const std::optional<symbol>& key, bool no_more,
                    const std::optional<symbol>& others, object_rules& rules) {
        const bool bare = rules.properties.empty();
        if (const json::value* patterns = schema.if_contains("patternProperties")) {
            if (bare && !key && patterns->is_object() && patterns->get_object().size() == 1) {
                const auto& only = *patterns->get_object().begin();
                const std::string pattern(only.key());
                auto made = held(below(path, "/patternProperties"),
                                 [&] { return strings_matching(out_, pattern); });
                const std::string place = below(path, "/patternProperties/", pattern);
                if (made) {
                    rules.others = {*made, compile(only.value(), place)};
                    return;
                }
            } else {
                complaints_.give_up(path, "'patternProperties' is not supported");
            }
            if (bare) no_more = false;  // or nothing would be left
        }
        if (no_more || (!others && !bare)) return;
        if (key && !bare)
            complaints_.give_up(path, "'propertyNames' beside 'properties' is not supported");
        std::optional<symbol> name = bare ? key : std::nullopt;
        if (!name && bare) name = out_.plain_key();
        if (!name) name = other_key(builder_, rules.properties);
        rules.others = {*name, others ? *others : out_.any_value()};
    }

    /// The keys that 'propertyNames' allows, as a list or as a form; nothing if it forbids none.
    struct names_allowed {
        std::optional<std::set<std::string>> only;
        std::optional<symbol> key;
    };
    /// Which names of members propertyNames allows: a list of names, the rule of a string, or any.
    names_allowed property_names(const json::object& schema, const std::string& path) {
        names_allowed out;
        const json::value* given = schema.if_contains("propertyNames");
        if (!given) return out;
        const std::string place = below(path, "/propertyNames");
        schema_merge names(budget_, place, complaints_);
        for (const json::object* part : places_.parts_of(*given, place)) names.add(*part);
        const json::object& whole = names.whole();
        if (whole.contains("const") || is_schema_list(whole, "enum")) {
            out.only.emplace();
            for (const json::value* name : constants_of(whole))
                if (name->is_string() && !exact_number(*name)) {
                    memory_.add(charge_walk(*name, budget_) + reference_bytes);
                    out.only->emplace(name->get_string());
                }
            return out;
        }
        names.set("type", "string");
        for (std::string_view key : {"pattern", "minLength", "maxLength", "format"})
            if (whole.contains(key)) {
                out.key = compile(whole, place);
                return out;
            }
        for (std::string_view key : {"anyOf", "oneOf", "allOf", "not"})
            if (whole.contains(key))
                complaints_.give_up(place, "'" + std::string(key) + "' is not supported here");
        return out;
    }

    /// Sets the bounds of the number of members, where they restrict more than the required and
    /// declared members do. Complains about bounds that need too many rules.
    void count_members(const json::object& schema, const std::string& path, object_rules& rules) {
        int least = count(schema, "minProperties", 0, path);
        int most = most_of(schema, "maxProperties", least, "minProperties", path);
        const auto declared = static_cast<int>(rules.properties.size());
        const auto required = static_cast<int>(std::ranges::count_if(
            rules.properties, [](const declared_property& p) { return p.required; }));
        if (least <= required) least = 0;
        if (!rules.others && most >= declared) most = -1;
        if (std::int64_t{std::max(least, most)} * (declared + 1) > member_states_max) {
            complaints_.give_up(path,
                                "'minProperties' or 'maxProperties' this large is not supported");
            return;
        }
        rules.least = least;
        rules.most = most;
    }

    json_grammar& out_;
    grammar_builder& builder_;
    storage::work_budget& budget_;
    schema_complaints complaints_;
    schema_references places_;
    schema_strings strings_{out_, complaints_};
    growing_charge memory_{budget_};                      // of what is kept until the end
    std::map<std::string, symbol> references_, numbers_;  // rules that are made
    const bool are_arguments_;
    int depth_ = 0;
};

}  // namespace

symbol json_grammar::arguments_of_schema(const json::value& schema,
                                         std::vector<std::string>* not_held) {
    if (dialect_ != json_dialect::python) return of_schema(schema, not_held);
    if (!can_be_keywords(schema))
        return out_.any_of({out_.literal("(**") + of_schema(schema, not_held) + out_.literal(")")});
    json::object closed = schema.get_object();
    closed["additionalProperties"] = false;  // where it declares nothing, there is nothing
    return schema_compiler(*this, schema, not_held, true).compile(closed, "#");
}

grammar_builder::symbol json_grammar::of_schema(const boost::json::value& schema,
                                                std::vector<std::string>* not_held) {
    return schema_compiler(*this, schema, not_held, false).compile(schema, "#");
}

}  // namespace semantic::engine
