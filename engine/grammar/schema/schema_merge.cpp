// SPDX-License-Identifier: Apache-2.0
#include "engine/grammar/schema/schema_merge.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "engine/grammar/values/json_values.hpp"

namespace semantic::engine {

namespace {

namespace json = boost::json;

// The key of the list of further patterns in a merged schema: no keyword has this name.
constexpr std::string_view pattern_beside = "pattern\x01";

constexpr std::array<std::string_view, 5> lower_bounds{"minimum", "exclusiveMinimum", "minLength",
                                                       "minItems", "minProperties"};
constexpr std::array<std::string_view, 5> upper_bounds{"maximum", "exclusiveMaximum", "maxLength",
                                                       "maxItems", "maxProperties"};

/// If the keyword is a bound, keeps the narrower of two values in `mine`. Returns: whether it is.
bool join_bound(std::string_view key, json::value& mine, const json::value& other) {
    const bool is_lower = std::ranges::find(lower_bounds, key) != lower_bounds.end();
    if (!is_lower && std::ranges::find(upper_bounds, key) == upper_bounds.end()) return false;
    if (!mine.is_number() || !other.is_number()) return false;
    const bool more = other.to_number<double>() > mine.to_number<double>();
    if (more == is_lower) mine = other;
    return true;
}

}  // namespace

void schema_merge::charge_copy(json::string_view name, const json::value& value) {
    memory_.add(charge_walk(value, memory_.budget()) + member_bytes(name));
}

void schema_merge::add(const json::object& schema, std::string_view except) {
    if (!added_.insert(&schema).second) return;
    for (const auto& member : schema) {
        const json::string_view key = member.key();
        memory_.budget().charge_steps();
        if (key == "$ref" || key == except || says_nothing(key)) continue;
        if (const auto mine = whole_.find(key); mine != whole_.end()) {
            join(key, mine->value(), member.value());
            continue;
        }
        charge_copy(key, member.value());
        whole_.emplace(key, member.value());
    }
}

/// Joins a keyword's value into the one that is there, so that a JSON value satisfies both. Where
/// that cannot be said in one schema, it complains.
void schema_merge::join(json::string_view key, json::value& mine, const json::value& value) {
    if (key == "required" && mine.is_array() && value.is_array())
        return join_required(mine.get_array(), value.get_array());
    if (key == "properties" && mine.is_object() && value.is_object())
        return join_properties(mine.get_object(), value.get_object());
    if (key == "enum" && mine.is_array() && value.is_array())
        return join_constants(mine.get_array(), value.get_array());
    if (key == pattern_beside && mine.is_array() && value.is_array()) {
        for (const json::value& each : value.get_array()) add_pattern(each);
        return;
    }
    charge_walk(value, memory_.budget());
    if (mine == value) return;
    if (key == "pattern" && mine.is_string() && value.is_string()) return add_pattern(value);
    if (!join_bound(key, mine, value))
        complaints_.give_up(path_, "'" + std::string(key) + "' is given twice, " + shown(mine) +
                                       " and " + shown(value));
}

/// Adds to `mine` the names that it does not have yet.
void schema_merge::join_required(json::array& mine, const json::array& names) {
    const auto charge = [&](const json::value& name) {
        memory_.add(charge_walk(name, memory_.budget()) * 2);
    };
    if (required_.empty())
        for (const json::value& name : mine)
            if (name.is_string()) {
                charge(name);
                required_.emplace(name.get_string());
            }
    for (const json::value& name : names) {
        if (name.is_string() && required_.contains(std::string(name.get_string()))) continue;
        charge(name);
        if (name.is_string()) required_.emplace(name.get_string());
        mine.push_back(name);
    }
}

void schema_merge::join_properties(json::object& mine, const json::object& properties) {
    for (const auto& property : properties) {
        const auto known = mine.find(property.key());
        if (known != mine.end()) {
            join_property(property.key(), known->value(), property.value());
            continue;
        }
        charge_copy(property.key(), property.value());
        mine.emplace(property.key(), property.value());
    }
}

// Makes the property an 'allOf' of all schemas that it has to satisfy, each once.
void schema_merge::join_property(json::string_view name, json::value& mine,
                                 const json::value& property) {
    charge_walk(property, memory_.budget());
    auto known = properties_.find(std::string(name));
    if (known == properties_.end()) {
        if (mine == property) return;
        charge_walk(mine, memory_.budget());
        known = properties_.try_emplace(std::string(name)).first;
        known->second.emplace(hash_of(mine), 0);
        json::value first = std::move(mine);
        mine = {{"allOf", json::array()}};
        mine.get_object()["allOf"].get_array().push_back(std::move(first));
    }
    json::array& parts = mine.get_object()["allOf"].get_array();
    const std::size_t hash = hash_of(property);
    const auto [begin, end] = known->second.equal_range(hash);
    if (std::any_of(begin, end, [&](const auto& each) { return parts[each.second] == property; }))
        return;
    charge_copy(name, property);
    known->second.emplace(hash, parts.size());
    parts.push_back(property);
}

/// Keeps those constants that are in both lists. Complains when there is none.
void schema_merge::join_constants(json::array& mine, const json::array& values) {
    value_set theirs;
    growing_charge scratch(memory_.budget());
    for (const json::value& each : values) {
        charge_walk(each, memory_.budget());
        scratch.add(sizeof(void*) * 4);
        theirs.insert(&each);
    }
    json::array common;
    for (const json::value& each : mine) {
        scratch.add(charge_walk(each, memory_.budget()));
        if (theirs.contains(&each)) common.push_back(each);
    }
    if (common.empty()) return complaints_.give_up(path_, "no value is in both lists of 'enum'");
    mine = std::move(common);
}

void schema_merge::add_pattern(const json::value& pattern) {
    json::value& list = whole_.emplace(pattern_beside, json::array()).first->value();
    if (!list.is_array() || !pattern.is_string()) return;
    if (patterns_.empty())
        for (const json::value& each : list.get_array())
            if (each.is_string()) patterns_.emplace(each.get_string());
    memory_.add(2 * charge_walk(pattern, memory_.budget()));
    if (patterns_.emplace(pattern.get_string()).second) list.get_array().push_back(pattern);
}

std::vector<std::string> patterns_beside(const json::object& schema) {
    std::vector<std::string> out;
    const json::value* list = schema.if_contains(pattern_beside);
    if (!list || !list->is_array()) return out;
    for (const json::value& each : list->get_array())
        if (each.is_string()) out.emplace_back(each.get_string());
    return out;
}

}  // namespace semantic::engine
