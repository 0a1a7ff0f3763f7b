#pragma once
// JSON and its schemas as grammars: what follows them parses and, for a schema, validates.
// A schema's grammar may allow less than the schema (properties come in the order in which they are
// declared, numbers have at most 15 digits on each side of the point), never more.

#include <stdexcept>
#include <string>
#include <string_view>

#include "engine/grammar/grammar.hpp"

namespace boost::json {
class value;
}

namespace semantic::engine {

enum class json_spacing {
    free,       // blanks and line breaks where people put them, within bounds
    templates,  // ", " and ": " alone, as chat templates print a call
};

/// A schema that cannot be held to; what() names the place, the keyword and its value.
class unsupported_schema : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

/// Appends the rules of JSON to a grammar. One for each grammar: what schemas share is made once.
class json_grammar {
  public:
    json_grammar(grammar_builder& out, json_spacing spacing);

    grammar_builder::symbol any_value();
    grammar_builder::symbol any_object();
    /// Throws unsupported_schema, grammar_too_large. `schema` may hold $defs that it refers to.
    grammar_builder::symbol of_schema(const boost::json::value& schema);

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
    json_spacing spacing_;
    shared_rule any_value_, any_object_, colon_, comma_, blank_, character_, beyond_ascii_, string_,
        number_, integer_, boolean_, null_;
};

/// Lower and upper bound of a number as decimals; empty: none.
struct number_range {
    std::string least, most;
    bool least_excluded = false, most_excluded = false;
};
/// Decimal numbers in a range, without exponent. Throws unsupported_schema when a bound has more
/// than 15 digits on one side of its point.
grammar_builder::symbol numbers_in_range(grammar_builder& out, const number_range& range,
                                         bool fractions);

/// A JSON string (its quotes too) whose value an ECMA 262 regular expression finds a match in.
/// Throws unsupported_schema, naming what of the expression is not supported.
grammar_builder::symbol strings_matching(json_grammar& out, std::string_view pattern);

}  // namespace semantic::engine
