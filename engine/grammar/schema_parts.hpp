// SPDX-License-Identifier: Apache-2.0
#pragma once
// JSON Schemas as JSON: what their keywords say, before anything becomes a grammar.
// Thread: one at a time.

#include <boost/json.hpp>

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace semantic::engine {

/// What becomes of a keyword that cannot be held to.
class schema_complaints {
  public:
    /// `not_held`: where they are noted; null: they are refused.
    explicit schema_complaints(std::vector<std::string>* not_held) : not_held_(not_held) {}

    /// The keyword counts for nothing from here on. Throws unsupported_schema where that may not
    /// be.
    void give_up(const std::string& path, const std::string& reason);
    /// How often something was given up.
    std::size_t count() const { return count_; }

  private:
    std::vector<std::string>* not_held_;
    std::size_t count_ = 0;
};

/// Text as a complaint shows it: whole, or its beginning, cut between characters.
std::string shortened(std::string_view text, std::size_t bytes_max = 60);
/// A value, likewise.
std::string shown(const boost::json::value& value);

/// Keywords that only document, or hold schemas for others to refer to.
bool says_nothing(std::string_view keyword);
/// Keywords that no grammar here holds.
bool is_unsupported(std::string_view keyword);
/// Keywords that say something about values, whether a grammar holds them or not.
bool asserts(std::string_view keyword);

/// The types that a schema names, or those that its other keywords are about, or all. "number"
/// comes without "integer" unless both are named.
std::set<std::string_view> types_of(const boost::json::object& schema, const std::string& path,
                                    schema_complaints& to);
/// Of the seven types, from 0 on.
std::size_t index_of_type(std::string_view type);
bool names_all_types(const std::set<std::string_view>& types);
bool has_type(const std::set<std::string_view>& types, const boost::json::value& value);

/// The values of "const" and "enum".
std::vector<const boost::json::value*> constants_of(const boost::json::object& schema);

std::set<std::string> required_of(const boost::json::object& schema, const std::string& path,
                                  schema_complaints& to);

/// The pattern of a format; nothing for formats that are annotations only, as the specification has
/// it.
std::optional<std::string_view> pattern_of_format(const boost::json::value& format);

/// Whether the members of an object are those that its schema declares, under names that can be
/// keywords of a call: f(city="Rome").
bool can_be_keywords(const boost::json::value& schema);

}  // namespace semantic::engine
