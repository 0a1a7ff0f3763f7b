// SPDX-License-Identifier: Apache-2.0
#pragma once
// Several schemas as one that holds to all of them. Thread: one at a time.

#include <boost/json.hpp>

#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "engine/grammar/schema_parts.hpp"
#include "engine/grammar/values/growing_charge.hpp"

namespace semantic::engine {

/// Bounds become the narrower ones, required lists are joined, and lists of constants have in
/// common what remains; a property, or a pattern, of several must hold in all ways. Of what else is
/// said twice, all must say the same. Annotations, and '$ref', are left out.
class schema_merge {
  public:
    /// `path`: of the schema, for complaints. The others must outlive this.
    schema_merge(storage::work_budget& budget, std::string path, schema_complaints& complaints)
        : path_(std::move(path)), complaints_(complaints), memory_(budget) {}

    /// All keywords of `schema` but `except`. One that was added before adds nothing. Throws
    /// work_limit_exceeded.
    void add(const boost::json::object& schema, std::string_view except = "");
    /// In place of what was added under this keyword.
    void set(std::string_view keyword, boost::json::string_view value) { whole_[keyword] = value; }
    const boost::json::object& whole() const { return whole_; }

  private:
    /// What a property must satisfy, by hash: places in the list that is its 'allOf'.
    using part_index = std::unordered_multimap<std::size_t, std::size_t>;

    /// Charges for a copy of the value under a name, for as long as this lives.
    void charge_copy(boost::json::string_view name, const boost::json::value& value);
    void join(boost::json::string_view key, boost::json::value& mine,
              const boost::json::value& value);
    void join_required(boost::json::array& mine, const boost::json::array& names);
    void join_properties(boost::json::object& mine, const boost::json::object& properties);
    void join_property(boost::json::string_view name, boost::json::value& mine,
                       const boost::json::value& property);
    void join_constants(boost::json::array& mine, const boost::json::array& values);
    void add_pattern(const boost::json::value& pattern);

    const std::string path_;
    schema_complaints& complaints_;
    growing_charge memory_;
    boost::json::object whole_;
    std::unordered_set<const boost::json::object*> added_;
    std::unordered_set<std::string> required_, patterns_;     // of whole_, once there are two lists
    std::unordered_map<std::string, part_index> properties_;  // those that are an 'allOf' of ours
};

/// Patterns that a merge has added to 'pattern'.
std::vector<std::string> patterns_beside(const boost::json::object& schema);

}  // namespace semantic::engine
