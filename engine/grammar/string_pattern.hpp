// SPDX-License-Identifier: Apache-2.0
#pragma once
// Parses ECMA 262 regular expressions and writes them as a grammar of JSON strings, one expression
// or several at once. Pure.

#include <bitset>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/grammar/json_grammar.hpp"

namespace semantic::engine {

/// A set of characters: any of ASCII, and either all others or none. A class that means only some
/// of the others, such as \W, is taken to have none of them: that allows fewer strings, never wrong
/// ones.
struct char_set {
    std::bitset<128> ascii;
    bool others = false;
    bool means_more = false;  // characters beyond ASCII that the expression means were left out
    bool operator==(const char_set&) const = default;
};

struct char_set_hash {
    std::size_t operator()(const char_set& set) const noexcept {
        return std::hash<std::bitset<128>>{}(set.ascii) * 4 + (set.others ? 2 : 0) +
               (set.means_more ? 1 : 0);
    }
};

struct pattern_node {
    enum class kind { set, text, sequence, choice, repeat };
    kind type = kind::sequence;
    char_set set{};                     // set: one character of it
    std::string text{};                 // text: one character beyond ASCII, as UTF-8
    std::vector<pattern_node> parts{};  // of a sequence or choice; repeat: what is repeated
    int least = 1, most = 1;            // repeat; most < 0: without end
};

/// A look-ahead at the start of the string: what must, or must not, follow.
struct pattern_condition {
    pattern_node body;
    bool to_end = false;
    bool negated = false;
};

struct pattern_alternative {
    bool from_start = false, to_end = false;
    std::vector<pattern_condition> conditions{};  // "^(?=...)" and "^(?!...)"
    pattern_node body{};
};

/// The alternatives of an expression; a string has to match one of them.
using parsed_pattern = std::vector<pattern_alternative>;

constexpr std::size_t pattern_bytes_max = 64 * 1024;

/// Memory of a parsed expression for each byte of its text, about.
constexpr std::size_t pattern_node_bytes = 256;

/// Parses an expression. Requires: its bytes are charged to the budget. Throws unsupported_schema,
/// with the part of the expression that is not supported.
parsed_pattern parse_pattern(std::string_view pattern);

/// Writes sets of characters as they are in a JSON string, each character in one way only. Equal
/// sets share a rule.
class character_writer {
  public:
    explicit character_writer(json_grammar& out) : out_(out), builder_(out.builder()) {}
    grammar_builder::symbol one_of(const char_set& set);

  private:
    json_grammar& out_;
    grammar_builder& builder_;
    std::unordered_map<char_set, grammar_builder::symbol, char_set_hash> known_;
};

/// JSON strings with their quotes, of `least` to `most` (< 0: any number of) characters, in which
/// each of `patterns` finds a match. Throws unsupported_schema if a pattern has a character beyond
/// ASCII, or if all together need too many states.
grammar_builder::symbol strings_matching_all(json_grammar& out,
                                             const std::vector<parsed_pattern>& patterns, int least,
                                             int most);

}  // namespace semantic::engine
