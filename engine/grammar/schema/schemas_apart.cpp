// SPDX-License-Identifier: Apache-2.0
#include "engine/grammar/schema/schemas_apart.hpp"

#include <algorithm>
#include <bitset>
#include <map>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "engine/grammar/schema_parts.hpp"
#include "engine/grammar/values/growing_charge.hpp"
#include "engine/grammar/values/json_values.hpp"

namespace semantic::engine {

namespace {

namespace json = boost::json;

using constants = std::vector<const json::value*>;
using type_set = std::bitset<7>;

type_set types_of(const json::object& schema) {
    // Complaints are dropped: the compiler makes them again.
    std::vector<std::string> unknown;
    schema_complaints quiet(&unknown);
    type_set out;
    for (std::string_view type : types_of(schema, "", quiet)) {
        out.set(index_of_type(type));
        if (type == "number") out.set(index_of_type("integer"));
    }
    return out;
}

class schema_comparison {
  public:
    schema_comparison(const std::vector<const json::object*>& schemas, storage::work_budget& budget)
        : schemas_(schemas), memory_(budget) {}

    bool are_apart() {
        // Schemas with constants are compared by these, the others by type and required constants.
        std::vector<std::size_t> listed, others;
        for (std::size_t i = 0; i < schemas_.size(); ++i) {
            memory_.budget().charge_steps(16);
            types_.push_back(types_of(*schemas_[i]));
            lists_.push_back(charged(constants_of(*schemas_[i])));
            (lists_[i].empty() ? others : listed).push_back(i);
        }
        std::vector<constants> values;
        for (std::size_t i : listed) values.push_back(lists_[i]);
        return share_none(values) && differ_in_type(listed, others) && objects_differ(others);
    }

  private:
    constants charged(constants values) {
        for (const json::value* each : values) {
            charge_walk(*each, memory_.budget());
            memory_.add(8 * sizeof(void*));
        }
        return values;
    }

    // Whether no value is in two of the lists of constants.
    static bool share_none(const std::vector<constants>& lists) {
        value_map<std::size_t> owners;
        for (std::size_t i = 0; i < lists.size(); ++i)
            for (const json::value* value : lists[i])
                if (owners.try_emplace(value, i).first->second != i) return false;
        return true;
    }

    // A schema with a list of constants is compared with one without by type only; so are two
    // without, unless both are objects.
    bool differ_in_type(const std::vector<std::size_t>& listed,
                        const std::vector<std::size_t>& others) const {
        type_set of_listed, of_others, of_no_objects;
        for (std::size_t i : listed) of_listed |= types_[i];
        for (std::size_t i : others) {
            if ((of_listed & types_[i]).any()) return false;
            const bool is_object = types_[i] == only_objects();
            if (!is_object && (of_others & types_[i]).any()) return false;
            if (is_object && of_no_objects.test(index_of_type("object"))) return false;
            of_others |= types_[i];
            if (!is_object) of_no_objects |= types_[i];
        }
        return true;
    }
    static type_set only_objects() {
        type_set out;
        return out.set(index_of_type("object"));
    }

    /// The required properties that have a list of constants.
    using marks = std::map<std::string_view, constants>;

    /// The required properties of an object that have constant values, with these: they
    /// distinguish objects of different schemas.
    marks marks_of(const json::object& schema) {
        marks out;
        const json::value* properties = schema.if_contains("properties");
        const json::value* needed = schema.if_contains("required");
        if (!properties || !properties->is_object() || !needed || !needed->is_array()) return out;
        for (const json::value& name : needed->get_array()) {
            memory_.budget().charge_steps(4);
            if (!name.is_string()) continue;
            const auto found = properties->get_object().find(name.get_string());
            if (found == properties->get_object().end() || !found->value().is_object()) continue;
            if (out.contains(found->key())) continue;
            constants values = charged(constants_of(found->value().get_object()));
            memory_.add(12 * sizeof(void*));
            if (!values.empty()) out.emplace(found->key(), std::move(values));
        }
        return out;
    }

    // Divides the schemas by one property after the other, until each group has one; schemas that
    // no property divides are compared pair by pair.
    bool objects_differ(const std::vector<std::size_t>& others) {
        std::vector<marks> all;
        for (std::size_t i : others)
            if (types_[i] == only_objects()) all.push_back(marks_of(*schemas_[i]));
        std::vector<std::vector<const marks*>> groups(1);
        for (const marks& each : all) groups[0].push_back(&each);
        while (!groups.empty()) {
            const std::vector<const marks*> group = std::move(groups.back());
            groups.pop_back();
            if (group.size() < 2) continue;
            bool is_divided = false;
            for (const auto& [name, values] : *group[0]) {
                std::vector<std::vector<const marks*>> parts = divided(group, name);
                if (parts.size() < 2) continue;
                for (auto& part : parts) groups.push_back(std::move(part));
                is_divided = true;
                break;
            }
            if (!is_divided && !pairs_differ(group)) return false;
        }
        return true;
    }

    // Divides schemas into groups by a property: schemas that share one of its values, directly or
    // through others, are in one group. One group if a schema has no list for it.
    std::vector<std::vector<const marks*>> divided(const std::vector<const marks*>& group,
                                                   std::string_view name) {
        std::vector<std::size_t> leader(group.size());
        const auto leader_of = [&](std::size_t i) {
            while (leader[i] != i) i = leader[i] = leader[leader[i]];
            return i;
        };
        value_map<std::size_t> owners;
        for (std::size_t i = 0; i < group.size(); ++i) {
            leader[i] = i;
            memory_.budget().charge_steps(2);
            const auto found = group[i]->find(name);
            if (found == group[i]->end()) return {};
            for (const json::value* value : found->second) {
                charge_walk(*value, memory_.budget());
                const std::size_t owner = owners.try_emplace(value, i).first->second;
                leader[leader_of(i)] = leader_of(owner);
            }
        }
        std::map<std::size_t, std::vector<const marks*>> parts;
        for (std::size_t i = 0; i < group.size(); ++i) parts[leader_of(i)].push_back(group[i]);
        std::vector<std::vector<const marks*>> out;
        for (auto& [first, part] : parts) out.push_back(std::move(part));
        return out;
    }

    bool pairs_differ(const std::vector<const marks*>& group) {
        for (std::size_t i = 0; i < group.size(); ++i)
            for (std::size_t j = 0; j < i; ++j)
                if (!pair_differs(*group[i], *group[j])) return false;
        return true;
    }
    bool pair_differs(const marks& a, const marks& b) {
        for (const auto& [name, values] : a) {
            memory_.budget().charge_steps();
            const auto found = b.find(name);
            if (found == b.end()) continue;
            for (const constants* each : {&values, &found->second})
                for (const json::value* value : *each) charge_walk(*value, memory_.budget());
            if (share_none({values, found->second})) return true;
        }
        return false;
    }

    const std::vector<const json::object*>& schemas_;
    growing_charge memory_;
    std::vector<type_set> types_;   // [schema]
    std::vector<constants> lists_;  // [schema] its constants; empty: it lists none
};

}  // namespace

bool are_apart(const std::vector<const json::object*>& schemas, storage::work_budget& budget) {
    return schema_comparison(schemas, budget).are_apart();
}

}  // namespace semantic::engine
