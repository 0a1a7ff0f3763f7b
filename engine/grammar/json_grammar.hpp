// SPDX-License-Identifier: Apache-2.0
#pragma once
// Builds grammars for JSON and for JSON Schemas: texts that match are JSON and satisfy the schema.
// A schema's grammar may allow less than the schema (properties come in the order in which they are
// declared, numbers have at most 15 digits on each side of the point), never more.

#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/grammar/grammar.hpp"

namespace boost::json {
class array;
class value;
}  // namespace boost::json

namespace semantic::engine {

enum class json_spacing {
    free,       // blanks and line breaks are allowed, within bounds
    templates,  // only ", " and ": ", as chat templates print a call
    none,       // only "," and ":"
};

/// The notation of values in tool calls.
enum class json_dialect {
    json,
    gemma,   // plain keys have no quotes
    python,  // True, False, None; arguments are keywords
};

/// A mark that some models write instead of a string's quotes; between two marks every character is
/// literal.
struct string_mark {
    std::string spelling;
    grammar_builder::sequence mark;
    grammar_builder::symbol any_string;                  // a string with its marks
    std::optional<grammar_builder::symbol> character{};  // any character, if the mark is a token
};

/// Thrown for a schema that cannot be enforced; what() has the path, the keyword and its value.
class unsupported_schema : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

/// Adds the rules of JSON to a grammar. One object for each grammar, so that rules which schemas
/// share are added once.
class json_grammar {
  public:
    /// `quote`: the mark of strings without further constraints; nothing: they have quotes.
    json_grammar(grammar_builder& out, json_spacing spacing,
                 json_dialect dialect = json_dialect::json,
                 std::optional<string_mark> quote = std::nullopt);

    grammar_builder::symbol any_value();
    grammar_builder::symbol any_object();
    /// Values that satisfy a schema, which may refer to its own $defs. `not_held`: gets the path
    /// and keyword of what cannot be enforced and is ignored; null: that throws unsupported_schema.
    /// Throws grammar_too_large.
    grammar_builder::symbol of_schema(const boost::json::value& schema,
                                      std::vector<std::string>* not_held = nullptr);
    /// The arguments of a call, with their brackets: an object, or in Python's dialect keywords,
    /// f(a=1), if the schema's properties can be keywords, otherwise f(**{"a": 1}).
    grammar_builder::symbol arguments_of_schema(const boost::json::value& schema,
                                                std::vector<std::string>* not_held = nullptr);
    grammar_builder::symbol any_arguments();

    // The parts from which the functions below build.
    grammar_builder& builder() { return out_; }
    grammar_builder::symbol colon();
    grammar_builder::symbol comma();
    grammar_builder::symbol blank();
    /// One character of a string, escaped or not.
    grammar_builder::symbol character();
    grammar_builder::symbol beyond_ascii();  // one such character, as UTF-8
    grammar_builder::symbol string();
    grammar_builder::symbol number();
    grammar_builder::symbol integer();
    grammar_builder::symbol boolean();
    grammar_builder::symbol null();
    /// A string of `least` to `most` (< 0: any number of) characters.
    grammar_builder::symbol string_of(int least, int most);
    /// Just this value.
    grammar_builder::sequence constant(const boost::json::value& value);
    /// The name of a member, and the colon or equals sign after it.
    grammar_builder::sequence member_name(const std::string& name, bool is_argument);
    /// A key without quotes; nothing if the dialect has none.
    std::optional<grammar_builder::symbol> plain_key();
    /// The brackets that open and close an object.
    std::pair<std::string_view, std::string_view> brackets(bool are_arguments) const;
    /// An array of `least` to `most` (< 0: any number of) elements.
    grammar_builder::symbol array_of(grammar_builder::symbol element, int least, int most);

  private:
    struct shared_rule {
        bool made = false;
        grammar_builder::symbol rule;
    };
    template <class Make>
    grammar_builder::symbol once(shared_rule& rule, Make make);

    grammar_builder& out_;
    const json_spacing spacing_;
    const json_dialect dialect_;
    const std::optional<string_mark> quote_;
    shared_rule any_value_, any_object_, colon_, comma_, blank_, character_, beyond_ascii_, string_,
        number_, integer_, boolean_, null_;
};

/// Lower and upper bound of a number, as decimal texts; empty: no bound.
struct number_range {
    std::string least, most;
    bool least_excluded = false, most_excluded = false;
    int fraction_digits = 15;  // the most; 0: whole numbers
};
/// Decimal numbers in a range, without exponent and with at most 15 digits before the point. A
/// bound that all such numbers satisfy is ignored. Throws unsupported_schema if a bound leaves no
/// such number, or has more than 15 digits after its point.
grammar_builder::symbol numbers_in_range(grammar_builder& out, const number_range& range);
/// The multiples of `step`, a decimal above 0, in a range. Between two bounds they are listed, at
/// most 1,000. Without two bounds the only bound may be 0, and the step, without its trailing
/// zeros, at most 256. Throws unsupported_schema otherwise.
grammar_builder::symbol multiples_in_range(grammar_builder& out, const number_range& range,
                                           const std::string& step);

/// A JSON string with its quotes, in whose value the ECMA 262 regular expression finds a match.
/// Throws unsupported_schema, with the part of the expression that is not supported.
grammar_builder::symbol strings_matching(json_grammar& out, std::string_view pattern);

/// Arrays of `least` to `most` (< 0: any number) different elements of `values`: in any order if
/// there are at most ten values, otherwise in the order of `values`. Equal values count as one.
/// Throws unsupported_schema if there are too few values, or more than 1,000.
grammar_builder::symbol distinct_items(json_grammar& out, const boost::json::array& values,
                                       int least, int most);

struct declared_property {
    std::string name;
    grammar_builder::symbol value;
    bool required = false;
};
struct object_rules {
    std::vector<declared_property> properties;  // in the order in which they are written
    struct open_end {
        grammar_builder::symbol key, value;
    };
    std::optional<open_end> others{};  // members after the declared ones
    int least = 0, most = -1;          // number of members; most < 0: any number
    bool are_arguments = false;        // written as a call's arguments in the dialect
};
/// Objects with these members.
grammar_builder::symbol objects_of(json_grammar& out, const object_rules& rules);
/// A key with its quotes that is none of the declared ones: plain ASCII without escapes, because
/// these could spell a declared key in another way.
grammar_builder::symbol other_key(grammar_builder& out,
                                  const std::vector<declared_property>& properties);

}  // namespace semantic::engine
