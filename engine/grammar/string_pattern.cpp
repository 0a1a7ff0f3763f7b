// SPDX-License-Identifier: Apache-2.0
#include "engine/grammar/string_pattern.hpp"

#include <algorithm>
#include <optional>
#include <string>

#include "engine/grammar/schema_parts.hpp"
#include "storage/types/hex.hpp"

namespace semantic::engine {

namespace {

using symbol = grammar_builder::symbol;
using sequence = grammar_builder::sequence;
using kind = pattern_node::kind;

constexpr int repetitions_max = 1000;
constexpr int groups_max = 100;  // within each other

class pattern_parser {
  public:
    explicit pattern_parser(std::string_view pattern) : pattern_(pattern) {}

    /// Parses the pattern: alternatives, each with its anchors ^ and $ and the conditions (?=...)
    /// and (?!...) at its start.
    parsed_pattern whole() {
        parsed_pattern all;
        do {
            pattern_alternative one;
            one.from_start = take("^");
            while (one.from_start && (pattern_.substr(at_).starts_with("(?!") ||
                                      pattern_.substr(at_).starts_with("(?=")))
                one.conditions.push_back(condition());
            one.body = concatenation();
            one.to_end = take("$");
            all.push_back(std::move(one));
        } while (take("|"));
        if (at_ < pattern_.size()) refuse("')' without '('");
        return all;
    }

  private:
    [[noreturn]] void refuse(const std::string& message) const {
        throw unsupported_schema("pattern '" + shortened(pattern_) + "': " + message +
                                 " is not supported");
    }
    bool more() const { return at_ < pattern_.size(); }
    char peek() const { return more() ? pattern_[at_] : '\0'; }
    bool take(std::string_view text) {
        if (!pattern_.substr(at_).starts_with(text)) return false;
        at_ += text.size();
        return true;
    }

    // Requires: '(?=' or '(?!' comes next.
    pattern_condition condition() {
        pattern_condition out;
        out.negated = pattern_[at_ + 2] == '!';
        at_ += 3;
        out.body = concatenation();
        out.to_end = take("$");
        if (!take(")")) refuse("an alternative within '(?=' or '(?!'");
        return out;
    }

    pattern_node alternation() {
        pattern_node out{.type = kind::choice};
        do out.parts.push_back(concatenation());
        while (take("|"));
        return out;
    }

    bool ends_condition(std::size_t at) const {
        return depth_ == 0 && at < pattern_.size() && pattern_[at] == ')';
    }

    pattern_node concatenation() {
        pattern_node out{.type = kind::sequence};
        while (more() && peek() != '|' && peek() != ')') {
            // A '$' at the end of an alternative is read by whole().
            if (peek() == '$' && depth_ == 0 &&
                (at_ + 1 == pattern_.size() || pattern_[at_ + 1] == '|' || ends_condition(at_ + 1)))
                break;
            out.parts.push_back(repeated(atom()));
        }
        return out;
    }

    /// Parses the repetition after a unit, if there is one.
    pattern_node repeated(pattern_node unit) {
        int least = 1, most = 1;
        if (take("*")) {
            least = 0, most = -1;
        } else if (take("+")) {
            most = -1;
        } else if (take("?")) {
            least = 0;
        } else if (peek() == '{') {
            if (!counts(least, most)) refuse("this use of '{'");
        } else {
            return unit;
        }
        take("?");  // lazy or not, the same strings match
        if (peek() == '*' || peek() == '+') refuse("a repetition of a repetition");
        pattern_node out{.type = kind::repeat, .least = least, .most = most};
        out.parts.push_back(std::move(unit));  // a list in braces would copy it
        return out;
    }

    std::optional<int> count() {
        int value = 0;
        std::size_t begin = at_;
        for (; more() && peek() >= '0' && peek() <= '9'; ++at_) {
            value = value * 10 + (peek() - '0');
            if (value > repetitions_max) refuse("a repetition of more than 1000");
        }
        return at_ > begin ? std::optional(value) : std::nullopt;
    }

    // Requires: '{' comes next. Returns: false if no counts follow it.
    bool counts(int& least, int& most) {
        take("{");
        std::optional<int> first = count();
        if (!first) return false;
        least = most = *first;
        if (take(",")) most = count().value_or(-1);  // "{2,}" has no upper bound
        return take("}") && (most < 0 || least <= most);
    }

    /// Parses a group, a class, a dot, an escape or a single character.
    pattern_node atom() {
        if (take("(")) {
            if (take("?") && !take(":")) refuse("'(?' other than '(?:'");
            if (++depth_ > groups_max) refuse("more than 100 groups within each other");
            pattern_node group = alternation();
            --depth_;
            if (!take(")")) refuse("'(' without ')'");
            return group;
        }
        if (take("[")) return one_of(bracket());
        if (take(".")) {
            char_set set{std::bitset<128>().set(), true};
            set.ascii.reset('\n');
            set.ascii.reset('\r');
            return one_of(set);
        }
        if (peek() == '^' || peek() == '$') refuse("'^' or '$' within an alternative");
        if (peek() == '*' || peek() == '+' || peek() == '?') refuse("a repetition of nothing");
        if (take("\\")) {
            char_set set;
            if (named_set(set)) return one_of(set);
            return one_of(single(escaped_character()));
        }
        if (static_cast<unsigned char>(peek()) >= 0x80) return beyond_ascii();
        return one_of(single(pattern_[at_++]));
    }

    static pattern_node one_of(const char_set& set) { return {.type = kind::set, .set = set}; }

    static char_set single(char c) {
        char_set set;
        set.ascii.set(static_cast<unsigned char>(c));
        return set;
    }

    // A character beyond ASCII is written in JSON as it is in the pattern.
    pattern_node beyond_ascii() {
        std::size_t begin = at_++;
        while (more() && (static_cast<unsigned char>(peek()) & 0xc0) == 0x80) ++at_;
        return {.type = kind::text, .text = std::string(pattern_.substr(begin, at_ - begin))};
    }

    // Implementations disagree on whether 0x1c to 0x1f are blanks, so \S does not include them:
    // then every string that is written matches in all implementations.
    static void reset_doubtful_blanks(std::bitset<128>& members) {
        for (std::size_t c = 0x1c; c < 0x20; ++c) members.reset(c);
    }

    // Reads the letter of \d, \w, \s or one of their opposites and adds its characters to `set`.
    // All but \d and \w also mean characters beyond ASCII. Returns: false for any other letter,
    // which stays unread.
    bool named_set(char_set& set) {
        const char name = peek();
        std::bitset<128> members;
        for (std::size_t c = 0; c < 128; ++c) {
            bool digit = c >= '0' && c <= '9';
            bool word = digit || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
            bool space = c == ' ' || (c >= '\t' && c <= '\r');
            switch (name) {
                case 'd':
                    members.set(c, digit);
                    break;
                case 'D':
                    members.set(c, !digit);
                    break;
                case 'w':
                    members.set(c, word);
                    break;
                case 'W':
                    members.set(c, !word);
                    break;
                case 's':
                    members.set(c, space);
                    break;
                case 'S':
                    members.set(c, !space);
                    break;
                default:
                    return false;
            }
        }
        if (name == 'S') reset_doubtful_blanks(members);
        ++at_;
        set.ascii |= members;
        set.means_more = set.means_more || (name != 'd' && name != 'w');
        return true;
    }

    /// Reads the character after a backslash.
    char escaped_character() {
        if (!more()) refuse("'\\' at the end");
        char c = pattern_[at_++];
        switch (c) {
            case 'n':
                return '\n';
            case 'r':
                return '\r';
            case 't':
                return '\t';
            case 'f':
                return '\f';
            case 'v':
                return '\v';
            case 'x':
                return by_number(2);
            case 'u':
                return by_number(4);
            default:
                break;
        }
        bool letter_or_digit =
            (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        if (static_cast<unsigned char>(c) >= 0x80) refuse("'\\' before a character beyond ASCII");
        if (letter_or_digit) refuse(std::string("'\\") + c + "'");
        return c;
    }

    char by_number(std::size_t digits) {
        std::string spelled;
        for (; spelled.size() < digits && more(); ++at_) spelled += peek();
        const auto value = storage::number_of_hex(spelled);
        if (!value || spelled.size() < digits) refuse("a broken '\\x' or '\\u'");
        if (*value >= 128) refuse("'\\x' or '\\u' beyond ASCII");
        return static_cast<char>(*value);
    }

    /// Parses a class after its opening bracket.
    char_set bracket() {
        bool negated = take("^");
        bool named = false, blanks = false;
        char_set set;
        while (!take("]")) {
            if (!more()) refuse("'[' without ']'");
            if (take("\\")) {
                blanks = blanks || peek() == 's';
                if (named_set(set)) {
                    named = true;
                    continue;
                }
                span(set, escaped_character());
            } else {
                if (static_cast<unsigned char>(peek()) >= 0x80) refuse("'[…]' beyond ASCII");
                span(set, pattern_[at_++]);
            }
        }
        if (negated) {
            set.ascii.flip();
            if (blanks) reset_doubtful_blanks(set.ascii);
            // Which characters beyond ASCII a negated named class means is not known: none is
            // written.
            set.others = !named;
            set.means_more = named;
        }
        return set;
    }

    // `first`, or the range that it begins.
    void span(char_set& set, char first) {
        char last = first;
        if (peek() == '-' && at_ + 1 < pattern_.size() && pattern_[at_ + 1] != ']') {
            take("-");
            if (take("\\"))
                last = escaped_character();
            else
                last = pattern_[at_++];
            if (static_cast<unsigned char>(last) >= 0x80) refuse("'[…]' beyond ASCII");
            if (last < first) refuse("a range that ends before it begins");
        }
        for (int c = first; c <= last; ++c) set.ascii.set(static_cast<std::size_t>(c));
    }

    std::string_view pattern_;
    std::size_t at_ = 0;  // the byte that is read next
    int depth_ = 0;       // groups that are open
};

// Writes one expression as a grammar.
class pattern_writer {
  public:
    explicit pattern_writer(json_grammar& out)
        : out_(out), builder_(out.builder()), characters_(out) {}

    symbol whole(const parsed_pattern& pattern) {
        std::vector<sequence> ways;
        for (const pattern_alternative& one : pattern) {
            sequence way;
            if (!one.from_start) way = way + anything();
            way = way + written(one.body);
            if (!one.to_end) way = way + anything();
            ways.push_back(builder_.literal("\"") + way + builder_.literal("\""));
        }
        return builder_.any_of(std::move(ways));
    }

  private:
    symbol anything() { return builder_.repeat({out_.character()}, 0, -1); }

    // The rules of a part of an expression. Recursion is at most groups_max deep.
    sequence written(const pattern_node& node) {
        switch (node.type) {
            case kind::set:
                return {characters_.one_of(node.set)};
            case kind::text:
                return builder_.literal(node.text);
            case kind::repeat:
                return {builder_.repeat(written(node.parts[0]), node.least, node.most)};
            case kind::choice: {
                std::vector<sequence> ways;
                for (const pattern_node& part : node.parts) ways.push_back(written(part));
                return {builder_.any_of(std::move(ways))};
            }
            case kind::sequence:
                break;
        }
        sequence all;
        for (const pattern_node& part : node.parts) all = std::move(all) + written(part);
        return all;
    }

    json_grammar& out_;
    grammar_builder& builder_;
    character_writer characters_;
};

// Requires: `c` is below 0x20.
std::string escaped_control(std::size_t c) {
    constexpr std::string_view short_forms = "\b\t\n\f\r";
    constexpr std::string_view names = "btnfr";
    auto at = short_forms.find(static_cast<char>(c));
    if (at != std::string_view::npos) return std::string("\\") + names[at];
    std::string text = "\\u00";
    storage::append_hex(text, static_cast<char>(c));
    return text;
}

}  // namespace

parsed_pattern parse_pattern(std::string_view pattern) {
    if (pattern.size() > pattern_bytes_max)
        throw unsupported_schema("pattern '" + shortened(pattern) +
                                 "': an expression of more than " +
                                 std::to_string(pattern_bytes_max) + " bytes is not supported");
    return pattern_parser(pattern).whole();
}

symbol character_writer::one_of(const char_set& set) {
    builder_.budget().charge_steps();
    if (const auto known = known_.find(set); known != known_.end()) return known->second;
    // Quotes, backslashes and control characters are escaped, each in one way only.
    std::vector<sequence> ways;
    byte_set plain;
    for (std::size_t c = 0; c < 128; ++c) {
        if (!set.ascii.test(c)) continue;
        if (c == '"' || c == '\\')
            ways.push_back(builder_.literal(std::string("\\") + static_cast<char>(c)));
        else if (c >= 0x20)
            plain.set(c);
        else
            ways.push_back(builder_.literal(escaped_control(c)));
    }
    if (plain.any()) ways.push_back({builder_.bytes(plain)});
    if (set.others) ways.push_back({out_.beyond_ascii()});
    return known_.emplace(set, builder_.any_of(std::move(ways))).first->second;
}

symbol strings_matching(json_grammar& out, std::string_view pattern) {
    storage::work_budget& budget = out.builder().budget();
    budget.charge_steps(pattern.size());
    const storage::charged_bytes of_nodes(budget, pattern.size() * pattern_node_bytes);
    const parsed_pattern parsed = parse_pattern(pattern);
    bool conditional = std::any_of(parsed.begin(), parsed.end(),
                                   [](const auto& one) { return !one.conditions.empty(); });
    if (conditional) return strings_matching_all(out, {parsed}, 0, -1);
    return pattern_writer(out).whole(parsed);
}

}  // namespace semantic::engine
