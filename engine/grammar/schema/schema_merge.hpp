// SPDX-License-Identifier: Apache-2.0
#pragma once
// Merges several schemas into one that a value satisfies only if it satisfies all of them. Thread:
// one at a time.

#include <boost/json.hpp>

#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "engine/grammar/schema_parts.hpp"
#include "engine/grammar/values/growing_charge.hpp"

namespace semantic::engine {

/// Of two bounds the narrower one is kept, 'required' lists are joined, lists of constants become
/// their intersection, and a property or pattern that several schemas have has to satisfy all.
/// Other keywords must be equal, or they are reported. Annotations and '$ref' are left out.
class schema_merge {
  public:
    /// `path`: the schema's, for messages. The other arguments must outlive this.
    schema_merge(storage::work_budget& budget, std::string path, schema_complaints& complaints)
        : path_(std::move(path)), complaints_(complaints), memory_(budget) {}

    /// Merges all keywords of `schema` but `except`. Does nothing for a schema that was added
    /// before. Throws work_limit_exceeded.
    void add(const boost::json::object& schema, std::string_view except = "");
    /// Replaces a keyword of the merged schema.
    void set(std::string_view keyword, boost::json::string_view value) { whole_[keyword] = value; }
    const boost::json::object& whole() const { return whole_; }

  private:
    /// The schemas of a property's 'allOf' list, as indexes into it, by hash.
    using part_index = std::unordered_multimap<std::size_t, std::size_t>;

    /// Charges the memory of a copy of the value under a name, as long as this object lives.
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
    std::unordered_set<std::string> required_, patterns_;  // those of whole_, if lists were joined
    std::unordered_map<std::string, part_index> properties_;  // those that became an 'allOf'
};

/// The patterns that a merged schema has in addition to 'pattern'.
std::vector<std::string> patterns_beside(const boost::json::object& schema);

}  // namespace semantic::engine
