// SPDX-License-Identifier: Apache-2.0
#pragma once
// ECMA 262 regular expressions over the characters of a JSON string: read once, then written as a
// grammar, alone or several at once. Pure.

#include <bitset>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/grammar/json_grammar.hpp"

namespace semantic::engine {

/// A set of characters: those of ASCII one by one, all others together or not at all. Where a class
/// such as \W would mean some of the others, it is taken to mean none: fewer strings, never wrong
/// ones.
struct char_set {
    std::bitset<128> ascii;
    bool others = false;
    bool means_more = false;  // the expression means characters beyond ASCII that are left out
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

/// What must, or must not, follow at the start of the string.
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

/// Of a whole expression; a string needs a match of one of them.
using parsed_pattern = std::vector<pattern_alternative>;

constexpr std::size_t pattern_bytes_max = 64 * 1024;

/// What a byte of an expression takes once it is read, about.
constexpr std::size_t pattern_node_bytes = 256;

/// Requires: the bytes are charged for. Errors: throws unsupported_schema, naming what of the
/// expression is not supported.
parsed_pattern parse_pattern(std::string_view pattern);

/// Characters as JSON writes them between quotes, each in one way; a set met before is not written
/// again.
class character_writer {
  public:
    explicit character_writer(json_grammar& out) : out_(out), builder_(out.builder()) {}
    grammar_builder::symbol one_of(const char_set& set);

  private:
    json_grammar& out_;
    grammar_builder& builder_;
    std::unordered_map<char_set, grammar_builder::symbol, char_set_hash> known_;
};

/// Strings of `least` to `most` (< 0: any number of) characters that every one of `patterns` finds
/// a match in, quotes included. Throws unsupported_schema where a pattern names a character beyond
/// ASCII, or where all together need too many states.
grammar_builder::symbol strings_matching_all(json_grammar& out,
                                             const std::vector<parsed_pattern>& patterns, int least,
                                             int most);

}  // namespace semantic::engine
