// SPDX-License-Identifier: Apache-2.0
#include "engine/grammar/forms/gbnf.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/grammar/forms/code_points.hpp"
#include "engine/text/tokenizer/utf8.hpp"

namespace semantic::engine {

namespace {

using symbol = grammar_builder::symbol;
using sequence = grammar_builder::sequence;

constexpr int groups_max = 100;  // nesting
constexpr int repetitions_max = 10'000;
constexpr std::size_t rules_max = 2'000;

bool is_of_name(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
}

class gbnf_reader {
  public:
    gbnf_reader(grammar_builder& out, std::string_view text) : out_(out), text_(text) {}

    symbol root() {
        skip_blanks(true);
        while (more()) rule();
        for (const auto& [name, known] : names_)
            if (!known.is_defined) refuse_at(known.used_at, "there is no rule '" + name + "'");
        const auto root = names_.find("root");
        if (root == names_.end()) throw invalid_grammar("there is no rule 'root'");
        return root->second.rule;
    }

  private:
    struct named_rule {
        symbol rule;
        bool is_defined = false;
        std::size_t used_at = 0;  // byte of its first mention
    };

    [[noreturn]] void refuse_at(std::size_t at, const std::string& message) const {
        const auto before = text_.substr(0, at);
        const auto line = 1 + std::ranges::count(before, '\n');
        const std::size_t begin = before.rfind('\n') + 1;  // 0 where there is none
        throw invalid_grammar("line " + std::to_string(line) + ", column " +
                              std::to_string(at - begin + 1) + ": " + message);
    }
    [[noreturn]] void refuse(const std::string& message) const { refuse_at(at_, message); }

    bool more() const { return at_ < text_.size(); }
    char peek() const { return more() ? text_[at_] : '\0'; }
    bool take(std::string_view word) {
        if (!text_.substr(at_).starts_with(word)) return false;
        at_ += word.size();
        return true;
    }

    /// Skips blanks and comments, which end with their line.
    void skip_blanks(bool over_lines) {
        for (; more(); ++at_) {
            if (peek() == '#') at_ = std::min(text_.find('\n', at_), text_.size());
            if (!more()) return;
            const bool is_break = peek() == '\n' || peek() == '\r';
            if (is_break ? !over_lines : peek() != ' ' && peek() != '\t') return;
        }
    }

    std::string name() {
        const std::size_t begin = at_;
        while (more() && is_of_name(peek())) ++at_;
        if (at_ == begin) refuse("expected the name of a rule");
        return std::string(text_.substr(begin, at_ - begin));
    }

    named_rule& rule_named(const std::string& name, std::size_t at) {
        auto [known, is_new] = names_.try_emplace(name);
        if (is_new) {
            if (names_.size() > rules_max)
                refuse_at(at, "more than " + std::to_string(rules_max) + " rules");
            known->second = {out_.new_rule(), false, at};
        }
        return known->second;
    }

    /// Reads a rule, name ::= alternatives. Fails when it is defined twice.
    void rule() {
        const std::size_t begin = at_;
        named_rule& known = rule_named(name(), begin);
        if (known.is_defined) refuse_at(begin, "there is a rule of this name already");
        known.is_defined = true;
        const symbol made = known.rule;
        skip_blanks(false);
        if (!take("::=")) refuse("expected '::='");
        skip_blanks(true);
        for (sequence& way : alternatives(false)) out_.add(made, std::move(way));
        if (more() && peek() != '\n' && peek() != '\r') refuse("expected the end of the line");
        skip_blanks(true);
    }

    std::vector<sequence> alternatives(bool in_group) {
        std::vector<sequence> ways{concatenation(in_group)};
        while (goes_on_with_bar(in_group)) {
            skip_blanks(true);
            ways.push_back(concatenation(in_group));
        }
        return ways;
    }

    /// A bar may begin the next line.
    bool goes_on_with_bar(bool in_group) {
        const std::size_t here = at_;
        if (!in_group) skip_blanks(true);
        if (take("|")) return true;
        at_ = here;
        return false;
    }

    sequence concatenation(bool in_group) {
        sequence all;
        for (;;) {
            skip_blanks(in_group);
            sequence unit;
            if (!element(unit)) return all;
            all = std::move(all) + repeated(std::move(unit));
        }
    }

    /// Returns: false if no item begins here.
    bool element(sequence& unit) {
        const char c = peek();
        if (c == '"') {
            unit = literal();
        } else if (c == '[') {
            unit = {character_class()};
        } else if (take(".")) {
            unit = {one_character_of(out_, {{0, code_point_max}})};
        } else if (take("(")) {
            if (++depth_ > groups_max) refuse("more than 100 groups within each other");
            unit = {out_.any_of(alternatives(true))};
            --depth_;
            skip_blanks(true);
            if (!take(")")) refuse("expected ')'");
        } else if (is_of_name(c) && !begins_rule()) {
            const std::size_t begin = at_;
            unit = {rule_named(name(), begin).rule};
        } else {
            if (c == '<' || c == '!') refuse("tokens by number or name are not supported");
            return false;
        }
        return true;
    }

    /// Whether a rule begins here: a name followed by ::=, even if the line break before it is
    /// missing.
    bool begins_rule() const {
        std::size_t at = at_;
        while (at < text_.size() && is_of_name(text_[at])) ++at;
        while (at < text_.size() && (text_[at] == ' ' || text_[at] == '\t')) ++at;
        return text_.substr(at).starts_with("::=");
    }

    /// Reads the repetitions after a unit: *, +, ? or {least,most}. Several apply one after the
    /// other.
    sequence repeated(sequence unit) {
        for (;;) {
            int least = 1, most = 1;
            if (take("*"))
                least = 0, most = -1;
            else if (take("+"))
                most = -1;
            else if (take("?"))
                least = 0;
            else if (take("{"))
                counts(least, most);
            else
                return unit;
            unit = {out_.repeat(unit, least, most)};
        }
    }

    std::optional<int> count() {
        const std::size_t begin = at_;
        int value = 0;
        for (; more() && peek() >= '0' && peek() <= '9'; ++at_) {
            value = value * 10 + (peek() - '0');
            if (value > repetitions_max)
                refuse("more than " + std::to_string(repetitions_max) + " repetitions");
        }
        return at_ > begin ? std::optional(value) : std::nullopt;
    }

    /// Reads the counts of a repetition after its brace; most is -1 for any number.
    void counts(int& least, int& most) {
        skip_blanks(false);
        const auto first = count();
        skip_blanks(false);
        if (take(",")) {
            skip_blanks(false);
            most = count().value_or(-1);
            skip_blanks(false);
        } else if (first) {
            most = *first;
        } else {
            refuse("expected a number");
        }
        least = first.value_or(0);
        if (!take("}")) refuse("expected '}'");
        if (most >= 0 && most < least) refuse("the upper bound is below the lower one");
    }

    sequence literal() {
        const std::size_t begin = at_++;
        sequence all;
        while (peek() != '"' || !more()) {
            if (!more()) refuse_at(begin, "a literal without its end");
            const std::uint32_t c = character();
            all.push_back(one_character_of(out_, {{c, c}}));
        }
        ++at_;
        return all;
    }

    /// Reads a class of characters, [...] or [^...]. Returns: the rule of one such character.
    symbol character_class() {
        const std::size_t begin = at_++;
        const bool is_negated = take("^");
        std::vector<code_range> ranges;
        while (peek() != ']' || !more()) {
            if (!more()) refuse_at(begin, "a class without its end");
            code_range range;
            range.first = range.last = character();
            if (peek() == '-' && at_ + 1 < text_.size() && text_[at_ + 1] != ']') {
                ++at_;
                range.last = character();
                if (range.last < range.first) refuse("a range whose end is before its beginning");
            }
            ranges.push_back(range);
        }
        ++at_;
        ranges = sorted(std::move(ranges));
        return one_character_of(out_, is_negated ? all_but(ranges) : ranges);
    }

    /// Reads one character of a literal or a class, escaped or not.
    std::uint32_t character() {
        if (!more()) refuse("expected a character");
        if (take("\\")) return escaped();
        const utf8::step next = utf8::next(text_.substr(at_));
        if (next.code < 0) refuse("a byte that is no UTF-8");
        at_ += next.length;
        return static_cast<std::uint32_t>(next.code);
    }

    std::uint32_t escaped() {
        const char c = peek();
        ++at_;
        switch (c) {
            case 'x':
                return by_number(2);
            case 'u':
                return by_number(4);
            case 'U':
                return by_number(8);
            case 't':
                return '\t';
            case 'r':
                return '\r';
            case 'n':
                return '\n';
            case '\\':
            case '"':
            case '[':
            case ']':
            case '-':
            case '^':
                return static_cast<std::uint32_t>(c);
            default:
                --at_;  // the error names the place of the escape
                refuse("an unknown escape");
        }
    }

    /// Reads a character's number of so many hexadecimal digits. Fails when it is no character.
    std::uint32_t by_number(int digits) {
        std::uint32_t value = 0;
        for (int i = 0; i < digits; ++i, ++at_) {
            const char c = peek();
            std::uint32_t digit = 0;
            if (c >= '0' && c <= '9')
                digit = static_cast<std::uint32_t>(c - '0');
            else if (c >= 'a' && c <= 'f')
                digit = static_cast<std::uint32_t>(c - 'a' + 10);
            else if (c >= 'A' && c <= 'F')
                digit = static_cast<std::uint32_t>(c - 'A' + 10);
            else
                refuse("expected " + std::to_string(digits) + " hexadecimal digits");
            value = value * 16 + digit;
        }
        if (value > code_point_max || (value >= 0xD800 && value <= 0xDFFF))
            refuse("a number that is no character");
        return value;
    }

    grammar_builder& out_;
    const std::string_view text_;
    std::size_t at_ = 0;  // the byte that is read next
    int depth_ = 0;       // groups that are open
    std::map<std::string, named_rule> names_;
};

// A rule with which another one may begin.
struct left_way {
    std::uint32_t to;
    bool leaves_more;  // more symbols follow it in the alternative
};

/// For each rule the rules that one of its alternatives can begin with, and whether more follows
/// them. Rules that may be empty are passed over.
std::vector<std::vector<left_way>> left_ways(const grammar& rules) {
    std::vector<std::vector<left_way>> ways(rules.rules.size());
    for (std::size_t rule = 0; rule < rules.rules.size(); ++rule)
        for (const sequence& alternative : rules.rules[rule])
            for (std::size_t i = 0; i < alternative.size(); ++i) {
                if (alternative[i].type != grammar::kind::rule) break;
                const std::uint32_t to = alternative[i].index;
                ways[rule].push_back({to, i + 1 < alternative.size()});
                if (rules.bytes_least[to] > 0) break;
            }
    return ways;
}

// Numbers the strongly connected components of the rules: two rules have the same number if each
// can begin with the other. Tarjan's algorithm, without recursion.
std::vector<std::uint32_t> circles_of(const std::vector<std::vector<left_way>>& ways) {
    constexpr std::uint32_t none = static_cast<std::uint32_t>(-1);
    std::vector<std::uint32_t> order(ways.size(), none), low(ways.size(), 0);
    std::vector<std::uint32_t> circle(ways.size(), none), open;
    struct visit {
        std::uint32_t rule;
        std::size_t next;
    };
    std::vector<visit> path;
    std::uint32_t met = 0, circles = 0;
    const auto enter = [&](std::uint32_t rule) {
        order[rule] = low[rule] = met++;
        open.push_back(rule);
        path.push_back({rule, 0});
    };
    for (std::uint32_t start = 0; start < ways.size(); ++start) {
        if (order[start] == none) enter(start);
        while (!path.empty()) {
            const std::uint32_t rule = path.back().rule;
            if (path.back().next < ways[rule].size()) {
                const std::uint32_t to = ways[rule][path.back().next++].to;
                if (order[to] == none)
                    enter(to);
                else if (circle[to] == none)
                    low[rule] = std::min(low[rule], order[to]);
                continue;
            }
            path.pop_back();
            if (!path.empty()) low[path.back().rule] = std::min(low[path.back().rule], low[rule]);
            if (low[rule] != order[rule]) continue;
            while (circle[rule] == none) {
                circle[open.back()] = circles;
                open.pop_back();
            }
            ++circles;
        }
    }
    return circle;
}

}  // namespace

symbol read_gbnf(grammar_builder& out, std::string_view text) {
    if (text.size() > gbnf_bytes_max)
        throw invalid_grammar("it has " + std::to_string(text.size()) + " bytes; at most " +
                              std::to_string(gbnf_bytes_max) + " are read");
    return gbnf_reader(out, text).root();
}

bool recurses_on_the_left(const grammar& rules) {
    const auto ways = left_ways(rules);
    const auto circle = circles_of(ways);
    for (std::size_t rule = 0; rule < ways.size(); ++rule)
        for (const left_way& way : ways[rule])
            if (way.leaves_more && circle[rule] == circle[way.to]) return true;
    return false;
}

}  // namespace semantic::engine
