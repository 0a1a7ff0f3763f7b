#include <optional>
#include <string>

#include "engine/grammar/json_grammar.hpp"

namespace semantic::engine {

namespace {

using symbol = grammar_builder::symbol;
using sequence = grammar_builder::sequence;

constexpr int repetitions_max = 1000;

// A set of characters: those of ASCII one by one, all others together or not at all. Where a class
// such as \W would mean some of the others, it is taken to mean none: fewer strings, never wrong
// ones.
struct char_set {
    std::bitset<128> ascii;
    bool others = false;
};

class pattern_compiler {
  public:
    pattern_compiler(json_grammar& out, std::string_view pattern)
        : out_(out), builder_(out.builder()), pattern_(pattern) {}

    symbol whole() {
        std::vector<sequence> ways;
        do {
            bool from_start = take("^");
            sequence inner = concatenation();
            bool to_end = take("$");
            sequence way;
            if (!from_start) way = way + anything();
            way = way + inner;
            if (!to_end) way = way + anything();
            ways.push_back(builder_.literal("\"") + way + builder_.literal("\""));
        } while (take("|"));
        if (at_ < pattern_.size()) refuse("')' without '('");
        return builder_.any_of(std::move(ways));
    }

  private:
    [[noreturn]] void refuse(const std::string& what) const {
        throw unsupported_schema("pattern '" + std::string(pattern_) + "': " + what +
                                 " is not supported");
    }
    bool more() const { return at_ < pattern_.size(); }
    char peek() const { return more() ? pattern_[at_] : '\0'; }
    bool take(std::string_view text) {
        if (!pattern_.substr(at_).starts_with(text)) return false;
        at_ += text.size();
        return true;
    }
    symbol anything() { return builder_.repeat({out_.character()}, 0, -1); }

    symbol alternation() {
        std::vector<sequence> ways;
        do ways.push_back(concatenation());
        while (take("|"));
        return builder_.any_of(std::move(ways));
    }

    sequence concatenation() {
        sequence out;
        while (more() && peek() != '|' && peek() != ')') {
            // An end mark in front of the end of an alternative belongs to whole().
            if (peek() == '$' && (at_ + 1 == pattern_.size() || pattern_[at_ + 1] == '|') &&
                depth_ == 0)
                break;
            out = out + repeated(atom());
        }
        return out;
    }

    sequence repeated(const sequence& unit) {
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
        return {builder_.repeat(unit, least, most)};
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

    bool counts(int& least, int& most) {
        take("{");
        std::optional<int> first = count();
        if (!first) return false;
        least = most = *first;
        if (take(",")) most = count().value_or(-1);
        return take("}") && (most < 0 || least <= most);
    }

    sequence atom() {
        if (take("(")) {
            if (take("?") && !take(":")) refuse("'(?' other than '(?:'");
            ++depth_;
            symbol group = alternation();
            --depth_;
            if (!take(")")) refuse("'(' without ')'");
            return {group};
        }
        if (take("[")) return {encoded(bracket())};
        if (take(".")) {
            char_set set{std::bitset<128>().set(), true};
            set.ascii.reset('\n');
            set.ascii.reset('\r');
            return {encoded(set)};
        }
        if (peek() == '^' || peek() == '$') refuse("'^' or '$' within an alternative");
        if (peek() == '*' || peek() == '+' || peek() == '?') refuse("a repetition of nothing");
        if (take("\\")) {
            char_set set;
            if (named_set(set)) return {encoded(set)};
            return {encoded(single(escaped_character()))};
        }
        if (static_cast<unsigned char>(peek()) >= 0x80) return beyond_ascii();
        return {encoded(single(pattern_[at_++]))};
    }

    static char_set single(char c) {
        char_set set;
        set.ascii.set(static_cast<unsigned char>(c));
        return set;
    }

    // A character of several bytes stands in the JSON as it stands in the pattern.
    sequence beyond_ascii() {
        std::size_t begin = at_++;
        while (more() && (static_cast<unsigned char>(peek()) & 0xc0) == 0x80) ++at_;
        return builder_.literal(pattern_.substr(begin, at_ - begin));
    }

    // \d, \w, \s and their opposites.
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
        // Readers disagree on whether 0x1c to 0x1f are blanks.
        if (name == 'S')
            for (std::size_t c = 0x1c; c < 0x20; ++c) members.reset(c);
        ++at_;
        set.ascii |= members;
        return true;
    }

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
        bool letter_or_digit = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
                               (c >= 'A' && c <= 'Z') || static_cast<unsigned char>(c) >= 0x80;
        if (letter_or_digit) refuse(std::string("'\\") + c + "'");
        return c;
    }

    char by_number(std::size_t digits) {
        int value = 0;
        for (std::size_t i = 0; i < digits; ++i) {
            auto digit = std::string_view("0123456789abcdef").find(lower(peek()));
            if (!more() || digit == std::string_view::npos) refuse("a broken '\\x' or '\\u'");
            value = value * 16 + static_cast<int>(digit);
            ++at_;
        }
        if (value >= 128) refuse("'\\x' or '\\u' beyond ASCII");
        return static_cast<char>(value);
    }
    static char lower(char c) { return c >= 'A' && c <= 'F' ? static_cast<char>(c + 32) : c; }

    char_set bracket() {
        bool negated = take("^");
        bool named = false;
        char_set set;
        while (!take("]")) {
            if (!more()) refuse("'[' without ']'");
            if (take("\\")) {
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
            set.others = !named;
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

    // A character of the set as JSON writes it between quotes.
    symbol encoded(const char_set& set) {
        std::vector<sequence> ways;
        byte_set plain;
        for (std::size_t c = 0; c < 128; ++c) {
            if (!set.ascii.test(c)) continue;
            if (c == '"' || c == '\\')
                ways.push_back(builder_.literal(std::string("\\") + static_cast<char>(c)));
            else if (c >= 0x20)
                plain.set(c);
            else
                ways.push_back(builder_.literal(control(c)));
        }
        if (plain.any()) ways.push_back({builder_.bytes(plain)});
        if (set.others) ways.push_back({out_.beyond_ascii()});
        return builder_.any_of(std::move(ways));
    }

    static std::string control(std::size_t c) {
        constexpr std::string_view short_forms = "\b\t\n\f\r";
        constexpr std::string_view names = "btnfr";
        auto at = short_forms.find(static_cast<char>(c));
        if (at != std::string_view::npos) return std::string("\\") + names[at];
        constexpr std::string_view hex = "0123456789abcdef";
        return std::string("\\u00") + hex[c / 16] + hex[c % 16];
    }

    json_grammar& out_;
    grammar_builder& builder_;
    std::string_view pattern_;
    std::size_t at_ = 0;
    int depth_ = 0;
};

}  // namespace

symbol strings_matching(json_grammar& out, std::string_view pattern) {
    return pattern_compiler(out, pattern).whole();
}

}  // namespace semantic::engine
