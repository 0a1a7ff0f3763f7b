// SPDX-License-Identifier: Apache-2.0
#pragma once
// JSON and its schemas as grammars: what follows them parses and, for a schema, validates.
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
    free,       // blanks and line breaks where people put them, within bounds
    templates,  // ", " and ": " alone, as chat templates print a call
    none,       // "," and ":" alone
};

/// How arguments of calls are written in place of JSON, as far as their readers know it.
enum class json_dialect {
    json,
    gemma,   // plain keys have no quotes
    python,  // True, False, None; arguments are keywords
};

/// Replaces the quotes of a string; between two marks every character is literal.
struct string_mark {
    std::string spelling;
    grammar_builder::sequence mark;
    grammar_builder::symbol any_string;                  // the marks too
    std::optional<grammar_builder::symbol> character{};  // where a mark is no text: any
};

/// A schema that cannot be held to; what() names the place, the keyword and its value.
class unsupported_schema : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

/// Appends the rules of JSON to a grammar. One for each grammar: what schemas share is made once.
class json_grammar {
  public:
    /// `quote`: of strings without further constraints; without one they have quotes as all others.
    json_grammar(grammar_builder& out, json_spacing spacing,
                 json_dialect dialect = json_dialect::json,
                 std::optional<string_mark> quote = std::nullopt);

    grammar_builder::symbol any_value();
    grammar_builder::symbol any_object();
    /// `schema` may hold $defs that it refers to. `not_held`: takes, by place and keyword, what
    /// cannot be held to, which then counts for nothing; null: that throws unsupported_schema.
    /// Throws grammar_too_large.
    grammar_builder::symbol of_schema(const boost::json::value& schema,
                                      std::vector<std::string>* not_held = nullptr);
    /// The arguments of a call, with the brackets around them: an object, or keywords, f(a=1),
    /// where the dialect has them and the schema's properties can be such; f(**{"a": 1}) else.
    grammar_builder::symbol arguments_of_schema(const boost::json::value& schema,
                                                std::vector<std::string>* not_held = nullptr);
    grammar_builder::symbol any_arguments();

    // What the parts below are made of.
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
    /// Exactly one value.
    grammar_builder::sequence constant(const boost::json::value& value);
    /// The name of a member with what parts it from its value.
    grammar_builder::sequence member_name(const std::string& name, bool is_argument);
    /// A key without quotes, where the dialect has such.
    std::optional<grammar_builder::symbol> plain_key();
    /// What opens and closes an object.
    std::pair<std::string_view, std::string_view> brackets(bool are_arguments) const;
    /// Elements of an array: none, or `element` `least` to `most` times (< 0: without end).
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

/// Lower and upper bound of a number as decimals; empty: none.
struct number_range {
    std::string least, most;
    bool least_excluded = false, most_excluded = false;
    int fraction_digits = 15;  // at most; 0: whole numbers
};
/// Decimal numbers in a range, without exponent and with at most 15 digits before the point. A
/// bound beyond these is none. Throws unsupported_schema when a bound leaves no such number, or has
/// more than 15 digits after its point.
grammar_builder::symbol numbers_in_range(grammar_builder& out, const number_range& range);
/// The same, but multiples of `step`, a decimal above 0. Between two bounds they are listed; else
/// the step is at most 256 without zeros at its end, and the only bound is 0.
/// Throws unsupported_schema otherwise, and where more than 1,000 would be listed.
grammar_builder::symbol multiples_in_range(grammar_builder& out, const number_range& range,
                                           const std::string& step);

/// A JSON string (its quotes too) whose value an ECMA 262 regular expression finds a match in.
/// Throws unsupported_schema, naming what of the expression is not supported.
grammar_builder::symbol strings_matching(json_grammar& out, std::string_view pattern);

/// Arrays of `least` to `most` (< 0: any number) of `values`, each at most once: in any order where
/// there are ten at most, else in the order of `values`. Values that are equal count as one. Throws
/// unsupported_schema where there are too few values, or more than 1,000.
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
    int least = 0, most = -1;          // members in all; most < 0: any number
    bool are_arguments = false;        // of a call, as the dialect writes them
};
grammar_builder::symbol objects_of(json_grammar& out, const object_rules& rules);
/// A key that is none of the declared ones: plain ASCII, so that nothing is spelled in two ways.
grammar_builder::symbol other_key(grammar_builder& out,
                                  const std::vector<declared_property>& properties);

}  // namespace semantic::engine
