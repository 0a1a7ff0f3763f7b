// SPDX-License-Identifier: Apache-2.0
#include "engine/text/jinja/syntax/lexer.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>

#include "engine/text/jinja/values/marked_text.hpp"
#include "engine/text/tokenizer/utf8.hpp"

namespace semantic::engine::jinja {

namespace {

/// The source with all line breaks as \n, and without one at its end, as in Jinja.
std::string normalized(std::string_view source) {
    std::string out;
    out.reserve(source.size());
    for (std::size_t i = 0; i < source.size(); ++i) {
        if (source[i] != '\r') {
            out += source[i];
            continue;
        }
        out += '\n';
        if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    }
    if (out.ends_with('\n')) out.pop_back();
    return out;
}

constexpr std::array<std::string_view, 26> operators{
    "**", "//", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
    "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"};

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Appends a character as UTF-8; the replacement character for surrogates and codes out of range.
void append_character(std::string& out, std::uint32_t code) {
    if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) {
        out += utf8::replacement;
    } else if (code < 0x80) {
        out += static_cast<char>(code);
    } else if (code < 0x800) {
        out += static_cast<char>(0xc0U | (code >> 6));
        out += static_cast<char>(0x80U | (code & 0x3fU));
    } else if (code < 0x10000) {
        out += static_cast<char>(0xe0U | (code >> 12));
        out += static_cast<char>(0x80U | ((code >> 6) & 0x3fU));
        out += static_cast<char>(0x80U | (code & 0x3fU));
    } else {
        out += static_cast<char>(0xf0U | (code >> 18));
        out += static_cast<char>(0x80U | ((code >> 12) & 0x3fU));
        out += static_cast<char>(0x80U | ((code >> 6) & 0x3fU));
        out += static_cast<char>(0x80U | (code & 0x3fU));
    }
}

/// Resolves Python's escapes in the text between two quotes.
class unescaper {
  public:
    explicit unescaper(std::string_view text) : text_(text) {}

    std::string run() {
        while (at_ < text_.size()) {
            const char c = text_[at_++];
            if (c != '\\' || at_ == text_.size()) {
                out_ += c;
            } else {
                escape(text_[at_++]);
            }
        }
        return std::move(out_);
    }

  private:
    /// Resolves the escape whose letter, after the backslash, is `c`.
    void escape(char c) {
        constexpr std::string_view letters = "\\'\"abfnrtv";
        constexpr std::string_view meant = "\\'\"\a\b\f\n\r\t\v";
        if (const auto letter = letters.find(c); letter != letters.npos) {
            out_ += meant[letter];
        } else if (c >= '0' && c <= '7') {
            // `c` is the first of up to three octal digits.
            --at_;
            std::uint32_t code = 0;
            for (int i = 0; i < 3 && at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '7';
                 ++i) {
                code = code * 8 + static_cast<std::uint32_t>(text_[at_++] - '0');
            }
            append_character(out_, code);
        } else if (c == 'x' || c == 'u' || c == 'U') {
            hexadecimal(c == 'x' ? 2 : c == 'u' ? 4 : 8);
        } else if (c == 'N') {
            fail("characters by name are not supported in texts", error_kind::syntax);
        } else if (c != '\n') {
            // As in Python an unknown escape stays, and a backslash before a line break removes
            // both.
            out_ += '\\';
            out_ += c;
        }
    }

    /// Resolves the escapes x, u and U, which have exactly so many hexadecimal digits.
    void hexadecimal(std::size_t digits) {
        std::uint32_t code = 0;
        const std::string_view part = text_.substr(at_, digits);
        const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), code, 16);
        if (error != std::errc() || part.size() != digits || end != part.data() + digits ||
            code > 0x10ffff) {
            fail("an escape in a text has too few or too high digits", error_kind::syntax);
        }
        append_character(out_, code);
        at_ += digits;
    }

    std::string_view text_;
    std::size_t at_ = 0;  // the next byte of text_
    std::string out_;
};

/// Splits a template into tokens: the text outside of tags, and what is inside of them.
class lexer {
  public:
    explicit lexer(std::string_view source) : source_(normalized(source)), text_(source_) {}

    std::vector<token> run() {
        try {
            while (at_ < text_.size()) root();
        } catch (stopped& error) {
            // What fail() throws has no position yet.
            if (!error.placed) error.at = place(at_);
            error.placed = true;
            throw;
        }
        add(token_kind::end);
        return std::move(tokens_);
    }

  private:
    [[noreturn]] void syntax(std::string message) { fail(std::move(message), error_kind::syntax); }

    bool follows(std::string_view text, std::size_t at) const {
        return text_.substr(std::min(at, text_.size())).starts_with(text);
    }
    bool here(std::string_view text) const { return follows(text, at_); }

    /// The position after the white space at `at`.
    std::size_t after_space(std::size_t at) const {
        while (at < text_.size() && is_python_space(character_at(text_, at))) {
            at = next_character(text_, at);
        }
        return at;
    }

    /// The line and column of a byte, both from 1. Counts on from the last byte that it was called
    /// for, and from the start after a step back, which is rare.
    position place(std::size_t at) {
        if (at < counted_) {
            counted_ = 0;
            place_ = {};
        }
        for (; counted_ < at; ++counted_) {
            if (text_[counted_] == '\n') {
                ++place_.line;
                place_.column = 1;
            } else if (!utf8::is_continuation(text_[counted_])) {
                ++place_.column;
            }
        }
        return place_;
    }

    token& add(token_kind kind, std::string text = {}) {
        tokens_.push_back({.kind = kind, .text = std::move(text), .at = place(at_)});
        return tokens_.back();
    }

    /// Adds text outside of tags, unless there is none.
    void add_data(std::size_t begin, std::size_t end) {
        if (begin < end) add(token_kind::data, std::string(text_.substr(begin, end - begin)));
    }

    /// Adds the text up to the tag at `tag`. `sign`: the tag's "-" removes white space at the
    /// text's end, "+" keeps it. Without a sign, blanks between the start of a line and a tag that
    /// is no variable are removed (Jinja's option lstrip_blocks).
    void data_before(std::size_t tag, char sign, bool is_variable) {
        const std::string_view data = text_.substr(at_, tag - at_);
        std::size_t size = data.size();
        if (sign == '-') {
            size = stripped(data, false, true).end;
        } else if (sign != '+' && !is_variable) {
            const auto line_break = data.rfind('\n');
            const std::size_t line = line_break == data.npos ? 0 : line_break + 1;
            const bool blank =
                stripped(data.substr(line), true, false).begin == data.substr(line).size();
            if ((line > 0 || line_starts_) && blank) size = line;
        }
        add_data(at_, at_ + size);
    }

    /// The sign at `at`, '-' or '+'; a blank when there is none.
    char sign_at(std::size_t at) const {
        return at < text_.size() && (text_[at] == '-' || text_[at] == '+') ? text_[at] : ' ';
    }

    /// The position of the next tag; npos when there is none.
    std::size_t next_tag() const {
        for (std::size_t at = text_.find('{', at_); at != text_.npos;
             at = text_.find('{', at + 1)) {
            if (follows("{%", at) || follows("{{", at) || follows("{#", at)) return at;
        }
        return text_.npos;
    }

    /// Reads text outside of tags, and the tag after it.
    void root() {
        const std::size_t tag = next_tag();
        if (tag == text_.npos) {
            add_data(at_, text_.size());
            at_ = text_.size();
            return;
        }
        const char kind = text_[tag + 1];
        const char sign = sign_at(tag + 2);
        data_before(tag, sign, kind == '{');
        at_ = tag + (sign == ' ' ? 2 : 3);
        line_starts_ = false;
        if (kind == '#') return comment();
        if (kind == '%' && raw()) return;
        add(kind == '{' ? token_kind::variable_begin : token_kind::block_begin);
        inside(kind == '{' ? "}}" : "%}", kind == '%');
    }

    /// Takes the end of a tag, `mark` with its sign, if it is here; returns whether it was.
    /// `trims`: a line break after it is removed (Jinja's option trim_blocks), unless the sign is
    /// "+".
    bool tag_end(std::string_view mark, bool trims) {
        std::size_t after = 0;
        if (trims && here("+") && follows(mark, at_ + 1)) {
            after = at_ + 3;
        } else if (here("-") && follows(mark, at_ + 1)) {
            after = after_space(at_ + 3);
        } else if (here(mark)) {
            after = at_ + 2;
            if (trims && follows("\n", after)) ++after;
        } else {
            return false;
        }
        at_ = after;
        line_starts_ = text_[after - 1] == '\n';
        return true;
    }

    /// After "{#": skips a comment. Fails, at its start, when its end is missing.
    void comment() {
        const std::size_t begin = at_;
        for (; at_ < text_.size(); ++at_) {
            if (tag_end("#}", true)) return;
        }
        at_ = begin;
        syntax("the end of a comment is missing");
    }

    /// After "{%": takes a whole block {% raw %}...{% endraw %} as text, if one begins here;
    /// returns whether it did. Fails when its end is missing.
    bool raw() {
        std::size_t at = after_space(at_);
        if (!follows("raw", at)) return false;
        const std::size_t begin = at_;
        at_ = after_space(at + 3);
        if (!(here("-%}") || here("%}")) || !tag_end("%}", false)) {
            // A block that is named otherwise, such as {% rawdata %}, is read as a tag.
            at_ = begin;
            return false;
        }
        const std::size_t body = at_;
        for (std::size_t tag = text_.find("{%", body); tag != text_.npos;
             tag = text_.find("{%", tag + 1)) {
            const char sign = sign_at(tag + 2);
            at = after_space(tag + (sign == ' ' ? 2 : 3));
            if (!follows("endraw", at)) continue;
            const std::size_t end = after_space(at + 6);
            if (!follows("%}", end) && !follows("-%}", end) && !follows("+%}", end)) continue;
            at_ = body;
            data_before(tag, sign, false);
            at_ = end;
            // Cannot fail: the end was seen here.
            tag_end("%}", true);
            return true;
        }
        at_ = begin;
        syntax("the end of a raw block is missing");
    }

    /// Reads the tokens inside of a tag up to `end`, which only counts outside of brackets.
    void inside(std::string_view end, bool is_block) {
        const std::size_t begin = at_;
        std::string open;  // brackets that are to be closed, innermost last
        for (;;) {
            if (at_ == text_.size()) {
                at_ = begin;
                syntax("the end of a tag is missing: " + std::string(end));
            }
            if (open.empty()) {
                const std::size_t here_was = at_;
                const position was = place(at_);
                if (tag_end(end, is_block)) {
                    tokens_.push_back(
                        {.kind = is_block ? token_kind::block_end : token_kind::variable_end,
                         .at = was});
                    return;
                }
                at_ = here_was;
            }
            const std::size_t next = after_space(at_);
            if (next != at_) {
                at_ = next;
                continue;
            }
            if (!number() && !name() && !text()) balance(open, operation());
        }
    }

    /// Notes a bracket in `open`; fails at one that closes another kind, or none. The position is
    /// set back meanwhile, so that the error names the bracket.
    void balance(std::string& open, std::string_view op) {
        if (op == "{") open += '}';
        if (op == "(") open += ')';
        if (op == "[") open += ']';
        if (op != "}" && op != ")" && op != "]") return;
        at_ -= 1;
        if (open.empty()) syntax("unexpected '" + std::string(op) + "'");
        if (open.back() != op[0]) {
            syntax("unexpected '" + std::string(op) + "', expected '" + open.back() + "'");
        }
        at_ += 1;
        open.pop_back();
    }

    /// Takes an operator or a bracket, longest first. Fails when there is none.
    std::string_view operation() {
        for (const std::string_view op : operators) {
            if (!here(op)) continue;
            add(token_kind::op, std::string(op));
            at_ += op.size();
            return op;
        }
        const std::size_t end = next_character(text_, at_);
        syntax("unexpected character '" + std::string(text_.substr(at_, end - at_)) + "'");
    }

    /// Returns: the end of the digits from `at` on, with single underscores between them; `at` when
    /// there are none.
    std::size_t after_digits(std::size_t at) const {
        if (at >= text_.size() || !is_digit(text_[at])) return at;
        while (at < text_.size() &&
               (is_digit(text_[at]) ||
                (text_[at] == '_' && at + 1 < text_.size() && is_digit(text_[at + 1])))) {
            ++at;
        }
        return at;
    }

    /// Takes an integer or a float, if one begins here; returns whether it does.
    bool number() {
        if (!is_digit(text_[at_])) return false;
        std::size_t end = after_digits(at_);
        bool is_real = false;
        // After a dot only the digits are a number: `list.0.1` has two indexes, 0 and 1.
        if (at_ == 0 || text_[at_ - 1] != '.') {
            if (end < text_.size() && text_[end] == '.') {
                const std::size_t fraction = after_digits(end + 1);
                is_real = fraction != end + 1;
                if (is_real) end = fraction;
            }
            if (end < text_.size() && (text_[end] == 'e' || text_[end] == 'E')) {
                const std::size_t power = end + (sign_at(end + 1) == ' ' ? 1 : 2);
                const std::size_t digits_end = after_digits(power);
                if (digits_end != power) {
                    is_real = true;
                    end = digits_end;
                }
            }
        }
        if (is_real) {
            real(end);
        } else {
            integer(end);
        }
        return true;
    }

    /// The digits of bytes [begin, end), without underscores.
    std::string digits(std::size_t begin, std::size_t end) const {
        std::string out(text_.substr(begin, end - begin));
        std::erase(out, '_');
        return out;
    }

    /// Takes a float that ends at `end`. Fails when it is out of range.
    void real(std::size_t end) {
        const std::string spelled = digits(at_, end);
        double number = 0;
        const auto error =
            std::from_chars(spelled.data(), spelled.data() + spelled.size(), number).ec;
        if (error != std::errc()) syntax("the number " + spelled + " is out of range");
        add(token_kind::real).real = number;
        at_ = end;
    }

    /// Takes an integer in decimal or, by 0x, 0o or 0b, in another base. `end`: where its decimal
    /// digits end. Fails beyond 64 bits.
    void integer(std::size_t end) {
        int base = 10;
        std::size_t begin = at_;
        if (text_[at_] == '0') {
            const char mark = at_ + 1 < text_.size() ? text_[at_ + 1] : ' ';
            base = mark == 'x' || mark == 'X'   ? 16
                   : mark == 'o' || mark == 'O' ? 8
                   : mark == 'b' || mark == 'B' ? 2
                                                : 10;
            end = at_ + 1;
            if (base != 10) {
                begin = at_ + 2;
                end = begin;
                constexpr std::string_view all = "0123456789abcdefABCDEF";
                const std::string_view allowed =
                    base == 16 ? all : all.substr(0, static_cast<std::size_t>(base));
                while (end < text_.size() &&
                       (text_[end] == '_' || allowed.find(text_[end]) != allowed.npos)) {
                    ++end;
                }
            } else {
                // As in Python only zeros may follow a leading zero; another digit begins the next
                // token.
                while (follows("0", end) || follows("_0", end)) ++end;
            }
        }
        const std::string spelled = digits(begin, end);
        std::int64_t number = 0;
        const auto error =
            std::from_chars(spelled.data(), spelled.data() + spelled.size(), number, base).ec;
        if (error != std::errc()) syntax("the number " + spelled + " is out of range");
        add(token_kind::integer).integer = number;
        at_ = end;
    }

    /// Takes a name or a word of the grammar, if one begins here; returns whether it does.
    bool name() {
        std::size_t end = at_;
        while (end < text_.size()) {
            const std::int32_t code = character_at(text_, end);
            const bool letter = code == '_' || (code >= '0' && code <= '9') ||
                                (code < 0x80 ? std::isalpha(code) != 0 : utf8::is_word(code));
            if (!letter) break;
            end = next_character(text_, end);
        }
        if (end == at_) return false;
        add(token_kind::name, std::string(text_.substr(at_, end - at_)));
        at_ = end;
        return true;
    }

    /// Takes a text between quotes, if one begins here; returns whether it does. Fails when it does
    /// not end.
    bool text() {
        const char quote = text_[at_];
        if (quote != '\'' && quote != '"') return false;
        std::size_t end = at_ + 1;
        // A backslash also takes the quote after it into the text.
        while (end < text_.size() && text_[end] != quote) end += text_[end] == '\\' ? 2 : 1;
        if (end >= text_.size()) syntax("a text does not end");
        add(token_kind::text, unescaper(text_.substr(at_ + 1, end - at_ - 1)).run());
        at_ = end + 1;
        return true;
    }

    std::string source_;  // text_ is a view of it
    std::string_view text_;
    std::size_t at_ = 0;       // the next byte of text_
    bool line_starts_ = true;  // what was read last ended with a line break
    std::size_t counted_ = 0;  // the byte whose line and column place_ has
    position place_{};
    std::vector<token> tokens_;
};

}  // namespace

std::vector<token> tokenize(std::string_view source) {
    if (source.size() > source_bytes_max) fail("the template is too long", error_kind::limit);
    if (!storage::utf8::is_valid(source)) fail("the template is not UTF-8", error_kind::syntax);
    return lexer(source).run();
}

}  // namespace semantic::engine::jinja
