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
    void give_up(const std::string& path, const std::string& what);

  private:
    std::vector<std::string>* not_held_;
};

/// Text as a complaint shows it: whole, or its beginning, cut between characters.
std::string shortened(std::string_view text, std::size_t bytes_max = 60);
/// A value, likewise.
std::string shown(const boost::json::value& value);

/// Keywords that only tell people something, or hold schemas for others to refer to.
bool says_nothing(std::string_view keyword);
/// Keywords that no grammar here holds.
bool is_unsupported(std::string_view keyword);
/// Keywords that say something about values, whether a grammar holds them or not.
bool asserts(std::string_view keyword);

/// The types that a schema names, or those that its other keywords are about, or all. "number"
/// comes with no "integer" beside it unless both are named.
std::set<std::string_view> types_of(const boost::json::object& schema, const std::string& path,
                                    schema_complaints& to);
bool names_all_types(const std::set<std::string_view>& types);
bool has_type(const std::set<std::string_view>& types, const boost::json::value& value);

/// The values of "const" and "enum".
std::vector<const boost::json::value*> constants_of(const boost::json::object& schema);

std::set<std::string> required_of(const boost::json::object& schema, const std::string& path,
                                  schema_complaints& to);

/// Both at once. Bounds become the narrower ones, required lists are joined, and lists of constants
/// have in common what remains; a property, or a pattern, of both must hold in both ways. Of what
/// else is said twice, both must say the same.
boost::json::object merged(boost::json::object a, const boost::json::object& b,
                           const std::string& path, schema_complaints& to);

/// Patterns that merged() has put beside 'pattern'.
std::vector<std::string> patterns_beside(const boost::json::object& schema);

/// Whether it is plain to see that no value satisfies both: they differ in type, or in a constant
/// of a required property.
bool are_apart(const boost::json::object& a, const boost::json::object& b);

/// The pattern that a format stands for; nothing for those that only tell people something, as the
/// specification has it.
std::optional<std::string_view> pattern_of_format(const boost::json::value& format);

/// Whether the members of an object are those that its schema declares, under names that can be
/// keywords of a call: f(city="Rome").
bool can_be_keywords(const boost::json::value& schema);

}  // namespace semantic::engine
