// SPDX-License-Identifier: Apache-2.0
// Filters of texts and numbers.

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "engine/text/jinja/builtins/bound_arguments.hpp"
#include "engine/text/jinja/builtins/filters.hpp"
#include "engine/text/jinja/builtins/formatting.hpp"
#include "engine/text/jinja/builtins/methods.hpp"
#include "engine/text/jinja/builtins/operators.hpp"
#include "engine/text/jinja/values/print.hpp"
#include "engine/text/tokenizer/utf8.hpp"

namespace semantic::engine::jinja {

namespace {

const marked_text empty_text;

value upper(const value& input, const arguments& all, budget& left) {
    expect_no_arguments("upper", all);
    return with_case(to_text(input, left), letter_case::upper, left);
}
value lower(const value& input, const arguments& all, budget& left) {
    expect_no_arguments("lower", all);
    return with_case(to_text(input, left), letter_case::lower, left);
}
value capitalize(const value& input, const arguments& all, budget& left) {
    expect_no_arguments("capitalize", all);
    return capitalized(to_text(input, left), left);
}

/// Upper case at the start and after white space, hyphens and opening brackets, as in Jinja; lower
/// case elsewhere.
value title(const value& input, const arguments& all, budget& left) {
    expect_no_arguments("title", all);
    const marked_text text = to_text(input, left);
    left.spend_characters(text.size());
    marked_text out;
    bool begins = true;
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t end = next_character(text.bytes(), at);
        const std::int32_t code = character_at(text.bytes(), at);
        append_case(out, text, at, end, begins ? letter_case::upper : letter_case::lower);
        begins = is_python_space(code) || code == '-' || code == '(' || code == '{' ||
                 code == '[' || code == '<';
        at = end;
    }
    return out;
}

value trim(const value& input, const arguments& all, budget& left) {
    const bound_arguments given("trim", all, {"chars"});
    return stripped_text(to_text(input, left), given[0], true, true, left);
}

value center(const value& input, const arguments& all, budget& left) {
    const bound_arguments given("center", all, {"width"});
    return centered(to_text(input, left), given.integer(0, 80), {" ", false}, left);
}

value replace(const value& input, const arguments& all, budget& left) {
    const bound_arguments given("replace", all, {"old", "new", "count"});
    return replaced(to_text(input, left), to_text(given.required(0), left),
                    to_text(given.required(1), left), given.has(2) ? given.integer(2, -1) : -1,
                    left);
}

/// format % arguments: positional ones in order, or named ones as a dict.
value format(const value& input, const arguments& all, budget& left) {
    if (!all.positional.empty() && !all.named.empty()) {
        fail("format takes positional or named arguments, not both");
    }
    if (all.named.empty()) {
        return percent_format(to_text(input, left), make_list(all.positional, list_form::tuple),
                              left);
    }
    std::vector<std::pair<value, value>> named;
    for (const auto& [name, item] : all.named) named.emplace_back(name, item);
    return percent_format(to_text(input, left), make_dict(std::move(named), left), left);
}

/// Puts `width` blanks, or a text, in front of each line but the first (with `first`: also there),
/// and of empty lines only with `blank`.
value indent(const value& input, const arguments& all, budget& left) {
    const bound_arguments given("indent", all, {"width", "first", "blank"});
    require_defined(input);
    if (!input.is_text()) fail("indent needs a text, not " + type_name(input));
    marked_text step(std::string(4, ' '), false);
    if (given[0] != nullptr) {
        const marked_text* own = given[0]->as_text();
        const std::int64_t width = own == nullptr ? given.integer(0, 4) : 0;
        if (own == nullptr && width > 0) left.spend_text(static_cast<std::size_t>(width));
        step =
            own != nullptr
                ? *own
                : marked_text(
                      std::string(static_cast<std::size_t>(std::max<std::int64_t>(width, 0)), ' '),
                      false);
    }
    marked_text text = *input.as_text();
    left.spend_text(text.size());
    // As in Jinja: lines_of() then also has the empty line after a last line break.
    text.append("\n", false);
    const auto lines = lines_of(text.bytes(), false);
    left.spend_items(lines.size());
    marked_text out;
    if (given.flag(1, false)) out.append(step);
    for (std::size_t i = 0; i < lines.size(); ++i) {
        if (i > 0) out.append("\n", false);
        const bool is_blank = lines[i].begin == lines[i].end;
        if (i > 0 && (!is_blank || given.flag(2, false))) out.append(step);
        left.spend_growth(out.size(), lines[i].end - lines[i].begin + step.size());
        out.append(text, lines[i].begin, lines[i].end);
    }
    return out;
}

value string(const value& input, const arguments& all, budget& left) {
    expect_no_arguments("string", all);
    return input.is_text() ? input : value(to_text(input, left));
}

value safe(const value& input, const arguments& all, budget& left) {
    expect_no_arguments("safe", all);
    marked_text out = to_text(input, left);
    left.spend_text(out.size());
    out.is_markup = true;
    return out;
}

value escape(const value& input, const arguments& all, budget& left) {
    expect_no_arguments("escape", all);
    const marked_text* text = input.as_text();
    return text != nullptr && text->is_markup ? input : value(escaped(to_text(input, left), left));
}
value forceescape(const value& input, const arguments& all, budget& left) {
    expect_no_arguments("forceescape", all);
    return escaped(to_text(input, left), left);
}

/// Counts runs of letters, digits and underscores.
value wordcount(const value& input, const arguments& all, budget& left) {
    expect_no_arguments("wordcount", all);
    const marked_text text = to_text(input, left);
    left.spend_characters(text.size());
    std::int64_t count = 0;
    bool in_word = false;
    for (std::size_t at = 0; at < text.size(); at = next_character(text.bytes(), at)) {
        const bool is_word = utf8::is_word(character_at(text.bytes(), at));
        if (is_word && !in_word) ++count;
        in_word = is_word;
    }
    return count;
}

/// Prints JSON. As in Python's json.dumps() no blank follows the commas when there is an indent.
value tojson(const value& input, const arguments& all, budget& left) {
    const bound_arguments given("tojson", all,
                                {"ensure_ascii", "indent", "separators", "sort_keys"});
    json_format format;
    format.ensure_ascii = given.flag(0, false);
    format.sort_keys = given.flag(3, false);
    if (given.has(1)) {
        std::int64_t width = 0;
        if (given[1]->to_integer(width)) {
            left.spend_text(static_cast<std::size_t>(std::max<std::int64_t>(width, 0)));
            format.indent.emplace(
                std::string(static_cast<std::size_t>(std::max<std::int64_t>(width, 0)), ' '),
                false);
        } else {
            format.indent = given.text(1, empty_text);
        }
        format.item_separator = {",", false};
    }
    if (given.has(2)) {
        const list_ptr both = items_of(*given[2], left);
        if (both->items.size() != 2 || !both->items[0].is_text() || !both->items[1].is_text()) {
            fail("tojson: 'separators' must be two texts");
        }
        format.item_separator = *both->items[0].as_text();
        format.key_separator = *both->items[1].as_text();
    }
    return to_json(input, format, left);
}

/// The text without its underscores; empty when one is at an end or next to another, as Python's
/// numbers do not have them.
std::string without_underscores(std::string_view text) {
    std::string out;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const bool inner = i > 0 && i + 1 < text.size() && text[i - 1] != '_' && text[i + 1] != '_';
        if (text[i] == '_' && !inner) return {};
        if (text[i] != '_') out += text[i];
    }
    return out;
}

/// The text without white space at its ends.
std::string_view bare(const marked_text& text) {
    const byte_range kept = stripped(text.bytes(), true, true);
    return std::string_view(text.bytes()).substr(kept.begin, kept.end - kept.begin);
}

/// Reads an integer as Python's int(text, base). Returns: false when the text is none. Fails when
/// it needs more than 64 bits.
bool parse_integer(const marked_text& text, int base, std::int64_t& out) {
    std::string_view rest = bare(text);
    const bool is_negative = rest.starts_with('-');
    if (is_negative || rest.starts_with('+')) rest.remove_prefix(1);
    const char mark = rest.size() > 2 && rest[0] == '0' ? static_cast<char>(rest[1] | 0x20) : ' ';
    const int marked = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 0;
    if (marked != 0 && (base == marked || base == 0)) {
        rest.remove_prefix(2);
        base = marked;
    }
    if (base == 0) base = 10;
    const std::string digits = (is_negative ? "-" : "") + without_underscores(rest);
    const char* end = digits.data() + digits.size();
    // A second sign, which from_chars() would accept, is not Python's.
    if (digits.size() <= (is_negative ? 1U : 0U) || digits[is_negative ? 1 : 0] == '-')
        return false;
    const auto [behind, error] = std::from_chars(digits.data(), end, out, base);
    if (error == std::errc::result_out_of_range) fail("a number needs more than 64 bits");
    return error == std::errc() && behind == end;
}

/// Reads a number as Python's float(text). Returns: false when the text is none.
bool parse_real(const marked_text& text, double& out) {
    std::string_view rest = bare(text);
    const bool is_negative = rest.starts_with('-');
    if (is_negative || rest.starts_with('+')) rest.remove_prefix(1);
    std::string digits = without_underscores(rest);
    if (digits.empty() || digits[0] == '-' || digits[0] == '+') return false;
    // Python does not read from_chars()'s "nan(...)".
    if (digits.find_first_of("()") != digits.npos) return false;
    const auto [behind, error] = std::from_chars(digits.data(), digits.data() + digits.size(), out);
    if (error == std::errc::result_out_of_range) {
        out = std::strtod(digits.c_str(), nullptr);  // zero or infinite, as in Python
    } else if (error != std::errc()) {
        return false;
    }
    if (behind != digits.data() + digits.size()) return false;
    if (is_negative) out = -out;
    return true;
}

/// The number without its fraction. Returns: false when it is infinite or no number. Fails when it
/// needs more than 64 bits.
bool whole_part(double number, std::int64_t& out) {
    if (!std::isfinite(number)) return false;
    // The least and greatest integers are near 9.22e18.
    if (std::abs(number) >= 9.2e18) fail("a number needs more than 64 bits");
    out = static_cast<std::int64_t>(number);
    return true;
}

/// int(default, base): `default` for what is no number, and for bases that Python does not have.
value to_int(const value& input, const arguments& all, budget& left) {
    const bound_arguments given("int", all, {"default", "base"});
    const value otherwise = given[0] == nullptr ? value(0) : *given[0];
    const std::int64_t base = given.integer(1, 10);
    if (base < 0 || base == 1 || base > 36) return otherwise;
    require_defined(input);
    std::int64_t integer = 0;
    double real = 0;
    if (const marked_text* text = input.as_text()) {
        left.spend_bytes(text->size());
        if (parse_integer(*text, static_cast<int>(base), integer)) return integer;
        if (parse_real(*text, real) && whole_part(real, integer)) return integer;
        return otherwise;
    }
    if (input.to_integer(integer)) return integer;
    if (input.to_number(real)) {
        if (std::isinf(real)) fail("cannot convert float infinity to integer");
        if (whole_part(real, integer)) return integer;
    }
    return otherwise;
}

value to_float(const value& input, const arguments& all, budget& left) {
    const bound_arguments given("float", all, {"default"});
    require_defined(input);
    double real = 0;
    if (input.to_number(real)) return real;
    const marked_text* text = input.as_text();
    if (text != nullptr) left.spend_bytes(text->size());
    if (text != nullptr && parse_real(*text, real)) return real;
    return given[0] == nullptr ? value(0.0) : *given[0];
}

value abs_of(const value& input, const arguments& all, budget&) {
    expect_no_arguments("abs", all);
    std::int64_t integer = 0;
    if (input.to_integer(integer)) return integer < 0 ? negative(input) : value(integer);
    if (input.as_float() != nullptr) return std::abs(*input.as_float());
    fail("bad operand type for abs(): '" + type_name(input) + "'");
}

/// Rounds as Python's round(number, digits): halves go to the even neighbour. printf() does that
/// for the exact binary value, which arithmetic with powers of ten would not.
double rounded(double number, std::int64_t digits) {
    if (!std::isfinite(number) || digits > 300) return number;
    if (digits < 0) {
        if (digits < -308) return std::copysign(0.0, number);
        const double unit = std::pow(10.0, static_cast<double>(-digits));
        return std::nearbyint(number / unit) * unit;
    }
    // At most 309 digits before the point, 300 after it, a sign and the point.
    std::array<char, 700> buffer{};
    std::snprintf(buffer.data(), buffer.size(), "%.*f", static_cast<int>(digits), number);
    return std::strtod(buffer.data(), nullptr);
}

/// Rounds an integer to tens (digits -1), hundreds and so on; halves go to the even neighbour.
std::int64_t rounded(std::int64_t number, std::int64_t digits) {
    if (digits >= 0) return number;
    // 10^19 is beyond the integers.
    if (digits < -18) return 0;
    std::int64_t unit = 1;
    for (std::int64_t i = digits; i < 0; ++i) unit *= 10;
    const std::int64_t rest = ((number % unit) + unit) % unit;
    const std::int64_t down = number - rest;
    const bool is_odd = (down / unit) % 2 != 0;
    return rest * 2 > unit || (rest * 2 == unit && is_odd) ? down + unit : down;
}

/// round(precision, method): "common" keeps integers integers, the others make floats, as in Jinja.
value round(const value& input, const arguments& all, budget&) {
    const bound_arguments given("round", all, {"precision", "method"});
    const std::int64_t digits = given.integer(0, 0);
    static const marked_text common("common", false);
    const std::string& method = given.text(1, common).bytes();
    if (method != "common" && method != "ceil" && method != "floor") {
        fail("method must be common, ceil or floor");
    }
    std::int64_t integer = 0;
    double real = 0;
    if (!input.to_number(real)) fail("type " + type_name(input) + " cannot be rounded");
    if (method == "common") {
        if (input.to_integer(integer)) return rounded(integer, digits);
        return rounded(real, digits);
    }
    const double unit = std::pow(10.0, static_cast<double>(digits));
    if (!std::isfinite(real * unit)) fail("a number is out of range");
    return (method == "ceil" ? std::ceil(real * unit) : std::floor(real * unit)) / unit;
}

constexpr std::array filters{
    named_filter{"abs", abs_of},
    named_filter{"capitalize", capitalize},
    named_filter{"center", center},
    named_filter{"e", escape},
    named_filter{"escape", escape},
    named_filter{"float", to_float},
    named_filter{"forceescape", forceescape},
    named_filter{"format", format},
    named_filter{"indent", indent},
    named_filter{"int", to_int},
    named_filter{"lower", lower},
    named_filter{"replace", replace},
    named_filter{"round", round},
    named_filter{"safe", safe},
    named_filter{"string", string},
    named_filter{"title", title},
    named_filter{"tojson", tojson},
    named_filter{"trim", trim},
    named_filter{"upper", upper},
    named_filter{"wordcount", wordcount},
};

}  // namespace

std::span<const named_filter> text_filters() { return filters; }

}  // namespace semantic::engine::jinja
