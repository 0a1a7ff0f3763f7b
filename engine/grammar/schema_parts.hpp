// SPDX-License-Identifier: Apache-2.0
#pragma once
// Reads the keywords of JSON Schemas, before they are turned into a grammar. Thread: one at a time.

#include <boost/json.hpp>

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace semantic::engine {

/// Decides what happens with keywords that cannot be enforced: refuses the schema, or notes them.
class schema_complaints {
  public:
    /// `not_held`: gets the notes; null: the schema is refused.
    explicit schema_complaints(std::vector<std::string>* not_held) : not_held_(not_held) {}

    /// Reports a keyword at `path` that is ignored, for `reason`. Throws unsupported_schema if the
    /// schema is to be refused.
    void give_up(const std::string& path, const std::string& reason);
    /// How often give_up() was called.
    std::size_t count() const { return count_; }

  private:
    std::vector<std::string>* not_held_;
    std::size_t count_ = 0;
};

/// A text for an error message: at most bytes_max bytes of it, cut between characters.
std::string shortened(std::string_view text, std::size_t bytes_max = 60);
/// A JSON value for an error message: its text, shortened.
std::string shown(const boost::json::value& value);

/// Whether the keyword is only documentation, or has schemas to which others refer.
bool says_nothing(std::string_view keyword);
/// Whether the keyword cannot be enforced by the grammars here.
bool is_unsupported(std::string_view keyword);
/// Whether the keyword restricts values, enforced or not.
bool asserts(std::string_view keyword);

/// The types that a schema allows: those in "type", otherwise those that its other keywords are
/// about, otherwise all. "number" does not imply "integer" in the result. `to`: gets complaints.
std::set<std::string_view> types_of(const boost::json::object& schema, const std::string& path,
                                    schema_complaints& to);
/// The index of a type among the seven types, from 0 on.
std::size_t index_of_type(std::string_view type);
bool names_all_types(const std::set<std::string_view>& types);
bool has_type(const std::set<std::string_view>& types, const boost::json::value& value);

/// The values of "const" and "enum".
std::vector<const boost::json::value*> constants_of(const boost::json::object& schema);

std::set<std::string> required_of(const boost::json::object& schema, const std::string& path,
                                  schema_complaints& to);

/// The regular expression for a value of "format"; nothing for formats that are only annotations.
std::optional<std::string_view> pattern_of_format(const boost::json::value& format);

/// Whether the schema is that of an object with declared members only, whose names can be keywords
/// of a Python call: f(city="Rome").
bool can_be_keywords(const boost::json::value& schema);

}  // namespace semantic::engine
