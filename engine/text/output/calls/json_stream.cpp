// SPDX-License-Identifier: Apache-2.0
#include "engine/text/output/calls/json_stream.hpp"

#include <boost/json.hpp>

#include <algorithm>
#include <array>
#include <cctype>

#include "storage/types/hex.hpp"

namespace semantic::engine {

namespace {

constexpr std::array<std::string_view, 3> words{"true", "false", "null"};

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_number_part(char c) {
    return is_digit(c) || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E';
}

/// The number of digits in a row from `at`.
std::size_t digits_at(std::string_view text, std::size_t at) {
    std::size_t end = at;
    while (end < text.size() && is_digit(text[end])) ++end;
    return end - at;
}

/// Whether `text` is a number by JSON's grammar.
bool is_number(std::string_view text) {
    std::size_t at = text.starts_with('-') ? 1 : 0;
    const std::size_t whole = digits_at(text, at);
    if (whole == 0 || (whole > 1 && text[at] == '0')) return false;
    at += whole;
    if (at < text.size() && text[at] == '.') {
        const std::size_t digits = digits_at(text, at + 1);
        if (digits == 0) return false;
        at += 1 + digits;
    }
    if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
        ++at;
        if (at < text.size() && (text[at] == '+' || text[at] == '-')) ++at;
        const std::size_t digits = digits_at(text, at);
        if (digits == 0) return false;
        at += digits;
    }
    return at == text.size();
}

}  // namespace

bool is_json_space(char c) noexcept { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

void append_escaped(std::string& out, char c) {
    switch (c) {
        case '"':
            out += "\\\"";
            return;
        case '\\':
            out += "\\\\";
            return;
        case '\n':
            out += "\\n";
            return;
        case '\r':
            out += "\\r";
            return;
        case '\t':
            out += "\\t";
            return;
        default:
            break;
    }
    if (static_cast<unsigned char>(c) >= 0x20) {
        out += c;
        return;
    }
    out += "\\u00";
    storage::append_hex(out, c);
}

json_stream::state json_stream::push(char c, std::string& out) {
    if (state_ != state::open) {
        if (!is_json_space(c)) fail();
        return state_;
    }
    if (lexeme_ == lexeme::string) {
        in_string(c, out);
        return state_;
    }
    if (lexeme_ == lexeme::word) {
        in_word(c, out);
        return state_;
    }
    if (lexeme_ == lexeme::number) {
        if (is_number_part(c)) {
            text_ += c;
            return state_;
        }
        end_number(out);
    }
    if (state_ == state::open && !is_json_space(c)) structure(c, out);
    return state_;
}

/// Reads a character between strings, words and numbers: a bracket, a separator, or the first
/// character of one of those.
void json_stream::structure(char c, std::string& out) {
    switch (next_) {
        case expects::item:
            if (c == ']') return close(c, out);
            [[fallthrough]];
        case expects::value:
            return begin_value(c, out);
        case expects::first_key:
            if (c == '}') return close(c, out);
            [[fallthrough]];
        case expects::key:
            if (c != '"') return fail();
            out += c;
            lexeme_ = lexeme::string;
            is_key_ = true;
            if (depth() == 1) key_.clear();
            return;
        case expects::colon:
            if (c != ':') return fail();
            out += c;
            next_ = expects::value;
            return;
        case expects::end:
            if (c != ',') return close(c, out);
            out += c;
            next_ = open_.back() == '{' ? expects::key : expects::value;
            return;
    }
}

/// Reads the first character of a value. Numbers and words are collected in text_ until they end.
void json_stream::begin_value(char c, std::string& out) {
    if (c == '{' || c == '[') {
        if (depth() >= call_depth_max) return fail();
        open_ += c;
        out += c;
        next_ = c == '{' ? expects::first_key : expects::item;
    } else if (c == '"') {
        out += c;
        lexeme_ = lexeme::string;
        is_key_ = false;
    } else if (c == '-' || is_digit(c)) {
        text_ = c;
        lexeme_ = lexeme::number;
    } else {
        text_.clear();
        lexeme_ = lexeme::word;
        in_word(c, out);
    }
}

/// Reads a closing bracket. Fails when another one is open, or none.
void json_stream::close(char c, std::string& out) {
    if (open_.empty() || c != (open_.back() == '{' ? '}' : ']')) return fail();
    open_.pop_back();
    out += c;
    value_ended();
}

/// Reads a character of a string or the quote that ends it. Escapes are checked and kept as they
/// are.
void json_stream::in_string(char c, std::string& out) {
    const bool is_own_key = is_key_ && depth() == 1;
    if (escape_ > 1) {
        if (std::isxdigit(static_cast<unsigned char>(c)) == 0) return fail();
        --escape_;
        if (escape_ == 1) escape_ = 0;
    } else if (escape_ == 1) {
        if (std::string_view("\"\\/bfnrtu").find(c) == std::string_view::npos) return fail();
        escape_ = c == 'u' ? 5 : 0;
    } else if (c == '\\') {
        escape_ = 1;
    } else if (c == '"') {
        out += c;
        lexeme_ = lexeme::none;
        if (is_key_) {
            next_ = expects::colon;
        } else {
            value_ended();
        }
        return;
    } else if (static_cast<unsigned char>(c) < 0x20) {
        append_escaped(out, c);
        return;
    }
    out += c;
    if (is_own_key) key_ += c;
}

/// Reads a character of true, false or null.
void json_stream::in_word(char c, std::string& out) {
    text_ += c;
    const auto begins = [&](std::string_view word) { return word.starts_with(text_); };
    const auto* found = std::find_if(words.begin(), words.end(), begins);
    if (found == words.end()) return fail();
    if (text_.size() < found->size()) return;
    out += text_;
    lexeme_ = lexeme::none;
    value_ended();
}

/// Writes the number in text_. Fails when it is none.
void json_stream::end_number(std::string& out) {
    if (!is_number(text_)) return fail();
    out += text_;
    lexeme_ = lexeme::none;
    value_ended();
}

void json_stream::value_ended() {
    next_ = expects::end;
    if (open_.empty()) state_ = state::whole;
}

std::string respaced(std::string_view compact) {
    std::string out;
    bool in_string = false;
    bool escaped = false;
    for (const char c : compact) {
        out += c;
        if (in_string) {
            in_string = escaped || c != '"';
            escaped = !escaped && c == '\\';
        } else if (c == '"') {
            in_string = true;
        } else if (c == ',' || c == ':') {
            out += ' ';
        }
    }
    return out;
}

bool is_json_object(std::string_view text) {
    boost::system::error_code error;
    const boost::json::value json = boost::json::parse(text, error);
    return !error && json.is_object();
}

std::string text_of_json(std::string_view quoted) {
    boost::system::error_code error;
    const boost::json::value json = boost::json::parse(quoted, error);
    if (error || !json.is_string()) return {};
    return {json.get_string().data(), json.get_string().size()};
}

}  // namespace semantic::engine
