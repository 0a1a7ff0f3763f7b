// SPDX-License-Identifier: Apache-2.0
#include "engine/grammar/json_grammar.hpp"

#include <boost/json.hpp>

#include "engine/text/output/json_text.hpp"
#include "engine/types/exact_json.hpp"

namespace semantic::engine {

namespace {

using symbol = grammar_builder::symbol;

// The most blanks after a line break: a model that indents more is stuck in a loop.
constexpr int indent_max = 32;
// Digits that a double holds exactly: a reader would change numbers with more.
constexpr int digits_max = 15;

byte_set range(int first, int last) {
    byte_set set;
    for (int byte = first; byte <= last; ++byte) set.set(static_cast<std::size_t>(byte));
    return set;
}

byte_set one_of(std::string_view characters) {
    byte_set set;
    for (char c : characters) set.set(static_cast<unsigned char>(c));
    return set;
}

// The bytes of keys that a dialect writes without quotes.
constexpr std::string_view plain_key_bytes =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
constexpr int plain_key_max = 64;

bool is_plain_key(std::string_view name) {
    return !name.empty() && name.size() <= plain_key_max &&
           name.find_first_not_of(plain_key_bytes) == std::string_view::npos;
}

}  // namespace

json_grammar::json_grammar(grammar_builder& out, json_spacing spacing, json_dialect dialect,
                           std::optional<string_mark> quote)
    : out_(out), spacing_(spacing), dialect_(dialect), quote_(std::move(quote)) {}

// The rule of a part that all values share: the first call makes it from the alternatives of
// make().
template <class Make>
symbol json_grammar::once(shared_rule& rule, Make make) {
    if (!rule.made) {
        // Known before it is filled, because a value may contain values.
        rule = {true, out_.new_rule()};
        for (auto& alternative : make()) out_.add(rule.rule, std::move(alternative));
    }
    return rule.rule;
}

using alternatives = std::vector<grammar::sequence>;

symbol json_grammar::blank() {
    return once(blank_, [&]() -> alternatives {
        if (spacing_ != json_spacing::free) return {{}};
        symbol indent = out_.repeat(out_.literal(" "), 0, indent_max);
        return {{}, out_.literal(" "), out_.literal("\n") + indent};
    });
}

symbol json_grammar::colon() {
    return once(colon_, [&]() -> alternatives {
        if (spacing_ == json_spacing::templates) return {out_.literal(": ")};
        if (spacing_ == json_spacing::none) return {out_.literal(":")};
        return {out_.literal(":"), out_.literal(": ")};
    });
}

symbol json_grammar::comma() {
    return once(comma_, [&]() -> alternatives {
        if (spacing_ == json_spacing::templates) return {out_.literal(", ")};
        if (spacing_ == json_spacing::none) return {out_.literal(",")};
        return {out_.literal(",") + blank()};
    });
}

// A character beyond ASCII as well-formed UTF-8 (Unicode 15, table 3-7).
symbol json_grammar::beyond_ascii() {
    return once(beyond_ascii_, [&]() -> alternatives {
        auto bytes = [&](int first, int last) { return out_.bytes(range(first, last)); };
        symbol more = bytes(0x80, 0xbf);
        return {
            {bytes(0xc2, 0xdf), more},
            {bytes(0xe0, 0xe0), bytes(0xa0, 0xbf), more},
            {bytes(0xe1, 0xec), more, more},
            {bytes(0xed, 0xed), bytes(0x80, 0x9f), more},
            {bytes(0xee, 0xef), more, more},
            {bytes(0xf0, 0xf0), bytes(0x90, 0xbf), more, more},
            {bytes(0xf1, 0xf3), more, more, more},
            {bytes(0xf4, 0xf4), bytes(0x80, 0x8f), more, more},
        };
    });
}

// One character of a string, escaped as in RFC 8259, surrogates only in pairs.
symbol json_grammar::character() {
    return once(character_, [&]() -> alternatives {
        byte_set plain = range(0x20, 0x7f);
        plain.reset('"');
        plain.reset('\\');
        symbol hex = out_.bytes(one_of("0123456789abcdefABCDEF"));
        symbol not_d = out_.bytes(one_of("0123456789abcefABCEF"));
        symbol d = out_.bytes(one_of("dD"));
        grammar::sequence u = out_.literal("u");
        // Escapes are a rule of their own: each alternative of character() is followed after every
        // character.
        symbol escaped = out_.any_of({
            // Python keeps the backslash in front of a slash.
            {out_.bytes(one_of(dialect_ == json_dialect::python ? "\"\\bfnrt" : "\"\\/bfnrt"))},
            u + not_d + hex + hex + hex,
            u + d + out_.bytes(one_of("01234567")) + hex + hex,
            u + d + out_.bytes(one_of("89abAB")) + hex + hex + out_.literal("\\") + u + d +
                out_.bytes(one_of("cdefCDEF")) + hex + hex,
        });
        return {{out_.bytes(plain)}, {beyond_ascii()}, out_.literal("\\") + escaped};
    });
}

symbol json_grammar::string() {
    return once(string_, [&]() -> alternatives {
        if (quote_) return {{quote_->any_string}};
        return {out_.literal("\"") + out_.repeat({character()}, 0, -1) + out_.literal("\"")};
    });
}

symbol json_grammar::string_of(int least, int most) {
    const bool has_mark = quote_ && quote_->character;
    const grammar::sequence quote = has_mark ? quote_->mark : out_.literal("\"");
    const symbol one = has_mark ? *quote_->character : character();
    return out_.any_of({quote + out_.repeat({one}, least, most) + quote});
}

grammar::sequence json_grammar::constant(const boost::json::value& value) {
    if (dialect_ == json_dialect::python && value.is_bool())
        return out_.literal(value.get_bool() ? "True" : "False");
    if (dialect_ == json_dialect::python && value.is_null()) return out_.literal("None");
    if (const auto number = exact_number(value)) return out_.literal(*number);
    const boost::json::string* text = quote_ ? value.if_string() : nullptr;
    // A text that contains the mark cannot be put between marks: it gets quotes.
    if (text == nullptr || text->find(quote_->spelling) != boost::json::string::npos)
        return out_.literal(to_json_text(value));
    return quote_->mark + out_.literal(*text) + quote_->mark;
}

std::optional<symbol> json_grammar::plain_key() {
    if (dialect_ != json_dialect::gemma) return std::nullopt;
    return out_.repeat({out_.bytes(one_of(plain_key_bytes))}, 1, plain_key_max);
}

grammar::sequence json_grammar::member_name(const std::string& name, bool is_argument) {
    if (dialect_ == json_dialect::python && is_argument) return out_.literal(name + "=");
    if (dialect_ == json_dialect::gemma && is_plain_key(name)) return out_.literal(name) + colon();
    return out_.literal(quoted(name)) + colon();
}

std::pair<std::string_view, std::string_view> json_grammar::brackets(bool are_arguments) const {
    if (dialect_ == json_dialect::python && are_arguments) return {"(", ")"};
    return {"{", "}"};
}

symbol json_grammar::any_arguments() {
    if (dialect_ != json_dialect::python) return any_object();
    return out_.any_of({out_.literal("(**") + any_object() + out_.literal(")")});
}

symbol json_grammar::integer() {
    return once(integer_, [&]() -> alternatives {
        symbol digit = out_.bytes(one_of("0123456789"));
        symbol whole = out_.any_of(
            {out_.literal("0"), grammar::sequence{out_.bytes(one_of("123456789")),
                                                  out_.repeat({digit}, 0, digits_max - 1)}});
        return {{whole}, out_.literal("-") + whole};
    });
}

symbol json_grammar::number() {
    return once(number_, [&]() -> alternatives {
        symbol digit = out_.bytes(one_of("0123456789"));
        symbol fraction =
            out_.any_of({{}, out_.literal(".") + out_.repeat({digit}, 1, digits_max)});
        symbol sign = out_.any_of({{}, {out_.bytes(one_of("+-"))}});
        // Two digits of an exponent never exceed a double.
        symbol exponent = out_.any_of(
            {{}, grammar::sequence{out_.bytes(one_of("eE")), sign, out_.repeat({digit}, 1, 2)}});
        return {{integer(), fraction, exponent}};
    });
}

symbol json_grammar::boolean() {
    return once(boolean_, [&]() -> alternatives { return {constant(true), constant(false)}; });
}

symbol json_grammar::null() {
    return once(null_, [&]() -> alternatives { return {constant(nullptr)}; });
}

symbol json_grammar::array_of(symbol element, int least, int most) {
    grammar::sequence open = out_.literal("[") + blank();
    grammar::sequence close = grammar::sequence{blank()} + out_.literal("]");
    alternatives ways;
    // An empty array has blanks in one place only, so it is an alternative of its own.
    if (least <= 0) ways.push_back(out_.literal("[") + blank() + out_.literal("]"));
    if (most != 0) {
        symbol more =
            out_.repeat({comma(), element}, least > 0 ? least - 1 : 0, most < 0 ? -1 : most - 1);
        ways.push_back(open + element + more + close);
    }
    return out_.any_of(std::move(ways));
}

symbol json_grammar::any_value() {
    return once(any_value_, [&]() -> alternatives {
        return {{string()}, {number()},     {boolean()},
                {null()},   {any_object()}, {array_of(any_value(), 0, -1)}};
    });
}

symbol json_grammar::any_object() {
    return once(any_object_, [&]() -> alternatives {
        const std::optional<symbol> key = plain_key();
        grammar::sequence member{key ? *key : string(), colon(), any_value()};
        symbol more = out_.repeat(grammar::sequence{comma()} + member, 0, -1);
        return {out_.literal("{") + blank() + out_.literal("}"),
                out_.literal("{") + blank() + member + more + blank() + out_.literal("}")};
    });
}

}  // namespace semantic::engine
