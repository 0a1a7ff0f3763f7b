// SPDX-License-Identifier: Apache-2.0
#include "engine/text/jinja/builtins/formatting.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <optional>

#include "engine/text/jinja/builtins/number_format.hpp"
#include "engine/text/jinja/builtins/operators.hpp"
#include "engine/text/jinja/values/print.hpp"

namespace semantic::engine::jinja {

namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Reads digits from `at`, which is moved after them; 0 without any. Fails beyond format_width_max.
std::int64_t number_at(std::string_view text, std::size_t& at) {
    std::int64_t number = 0;
    while (at < text.size() && is_digit(text[at])) {
        number = number * 10 + (text[at++] - '0');
        if (number > format_width_max) fail("a width or precision is too large");
    }
    return number;
}

/// The first `characters` of a text; all of it when the number is negative.
marked_text shortened(const marked_text& text, std::int64_t characters) {
    if (characters < 0) return text;
    return text.part(0, byte_of_character(text.bytes(), static_cast<std::size_t>(characters)));
}

std::string character_of(std::int64_t code) {
    if (code < 0 || code > 0x10ffff) fail("%c arg not in range(0x110000)");
    // Only here does a number become a character. It is limited to ASCII, whose characters take one
    // byte.
    if (code >= 0x80) fail("%c beyond ASCII is not supported");
    return {static_cast<char>(code)};
}

/// Formats by Python's operator: format % given.
class percent {
  public:
    /// A tuple has one item for each directive; any other value is the only item. With a dict or a
    /// list it is no error when no directive uses it, as in Python.
    percent(const marked_text& format, const value& given, budget& left)
        : format_(format), text_(format.bytes()), given_(given), left_(left) {
        const list_object* list = given.as_list();
        if (list != nullptr && (list->form == list_form::tuple || list->form == list_form::group)) {
            items_ = list->items;
        } else {
            items_ = {given};
            is_mapping_ = given.as_dict() != nullptr || list != nullptr;
        }
    }

    /// Formats the whole text. Fails when arguments are left over.
    value run() {
        left_.spend_text(text_.size());
        for (;;) {
            const std::size_t sign = std::min(text_.find('%', at_), text_.size());
            out_.append(format_, at_, sign);
            if (sign == text_.size()) break;
            at_ = sign + 1;
            directive();
        }
        if (used_ < items_.size() && !is_mapping_) {
            fail("not all arguments converted during string formatting");
        }
        return std::move(out_);
    }

  private:
    /// The next character of the format. Fails at its end.
    char next() {
        if (at_ >= text_.size()) fail("incomplete format");
        return text_[at_++];
    }

    /// The next argument. Fails when all are used.
    value item() {
        if (used_ >= items_.size()) fail("not enough arguments for format string");
        return items_[used_++];
    }

    /// A width or precision: digits, or * for the next argument, which may be negative; 0 for none.
    std::int64_t number() {
        if (at_ < text_.size() && text_[at_] == '*') {
            ++at_;
            const std::int64_t given = integer_of(item(), "*");
            if (std::abs(given) > format_width_max) fail("a width or precision is too large");
            return given;
        }
        return number_at(text_, at_);
    }

    /// Reads a name in parentheses, as in %(name)s. Returns: the item of `given` with that name;
    /// nothing when there are no parentheses. Fails when there is no such item.
    std::optional<value> named() {
        if (at_ >= text_.size() || text_[at_] != '(') return std::nullopt;
        const std::size_t begin = ++at_;
        unsigned open = 1;
        while (open > 0) {
            const char c = next();
            if (c == '(') ++open;
            if (c == ')') --open;
        }
        const dict_object* dict = given_.as_dict();
        if (dict == nullptr) fail("format requires a mapping");
        const std::string_view name = text_.substr(begin, at_ - 1 - begin);
        const value* found = dict->find(name);
        if (found == nullptr) fail("the format names a missing key: '" + std::string(name) + "'");
        return *found;
    }

    /// Reads what follows a % sign: flags, width, precision and type; and appends the converted
    /// argument.
    void directive() {
        left_.spend();
        format_spec spec;
        const auto chosen = named();
        bool zeros = false, to_left = false;
        for (; at_ < text_.size(); ++at_) {
            const char c = text_[at_];
            if (c == '-') {
                to_left = true;
            } else if (c == '0') {
                zeros = true;
            } else if (c == '+' || (c == ' ' && spec.sign != '+')) {
                spec.sign = c;
            } else if (c == '#') {
                spec.alternate = true;
            } else if (c != ' ') {
                break;
            }
        }
        spec.width = number();
        // A negative width, from *, means alignment to the left.
        if (spec.width < 0) to_left = true;
        spec.width = std::abs(spec.width);
        if (at_ < text_.size() && text_[at_] == '.') {
            ++at_;
            // A negative precision, from *, counts as 0.
            spec.precision = std::max<std::int64_t>(number(), 0);
        }
        // C's sizes of integers, which Python reads and ignores.
        constexpr std::string_view sizes = "hlL";
        while (at_ < text_.size() && sizes.find(text_[at_]) != sizes.npos) ++at_;
        spec.type = next();
        // "%%" is a percent sign and uses no argument.
        if (spec.type == '%') return out_.append(format_, at_ - 1, at_);
        const value given = chosen ? *chosen : item();
        convert(given, spec, zeros && !to_left, to_left);
    }

    /// Appends one argument, converted by the directive's type and padded to its width. `zeros`:
    /// numbers are padded with zeros after the sign.
    void convert(const value& number, format_spec spec, bool zeros, bool to_left) {
        constexpr std::string_view numbers = "diuoxXeEfFgG";
        const bool is_number = numbers.find(spec.type) != numbers.npos;
        spec.align = to_left ? '<' : zeros && is_number ? '=' : '>';
        if (zeros && is_number) spec.fill = {"0", false};
        marked_text text;
        if (spec.type == 's') {
            text = shortened(to_text(number, left_), spec.precision);
        } else if (spec.type == 'r' || spec.type == 'a') {
            text = shortened(to_repr(number, left_), spec.precision);
        } else if (spec.type == 'c') {
            text = number.is_text() ? one_character(*number.as_text())
                                    // A character made of a number counts as content: the number
                                    // may be from a request.
                                    : marked_text(character_of(integer_of(number, "%c")), true);
        } else if (is_number) {
            text = marked_text(number_text(number, spec), false);
        } else {
            fail(std::string("unsupported format character '") + spec.type + "'");
        }
        const marked_text whole = filled(text, spec, is_number, left_);
        left_.spend_growth(out_.size(), whole.size());
        out_.append(whole);
    }

    static marked_text one_character(const marked_text& text) {
        if (count_characters(text.bytes()) != 1) fail("%c requires int or char");
        return text;
    }

    /// The digits of %d, %x, %f and the like. Fails for values that are no numbers, and for floats
    /// where the type needs an integer, except by d, which drops the fraction.
    static std::string number_text(const value& number, format_spec spec) {
        double real = 0;
        std::int64_t integer = 0;
        require_defined(number);
        if (!number.to_number(real)) {
            fail(std::string("%") + spec.type + " format: a number is required, not " +
                 type_name(number));
        }
        if (std::string_view("eEfFgG").find(spec.type) != std::string_view::npos) {
            return real_digits(real, spec);
        }
        if (spec.type == 'i' || spec.type == 'u') spec.type = 'd';
        if (!number.to_integer(integer)) {
            if (spec.type != 'd') fail("%x format: an integer is required, not float");
            if (!(std::abs(real) < 9e18)) fail("cannot convert float to integer");
            integer = static_cast<std::int64_t>(real);
        }
        return integer_digits(integer, spec);
    }

    // The format, and its bytes: text_ is format_.bytes().
    const marked_text& format_;
    std::string_view text_;
    const value& given_;
    budget& left_;
    std::vector<value> items_;  // arguments that directives use up in order
    bool is_mapping_ = false;   // items_ may be left over
    std::size_t used_ = 0;      // of items_
    std::size_t at_ = 0;        // the next byte of text_
    marked_text out_;
};

/// Reads a format specifier, [[fill]align][sign][#][0][width][grouping][.precision][type]. The
/// alignment '0' means that zeros are written before the number, or after a text.
format_spec spec_of(const marked_text& marked) {
    const std::string_view text = marked.bytes();
    format_spec spec;
    constexpr std::string_view aligns = "<>^=";
    std::size_t at = 0;
    // A fill may be any character: it ends where the alignment is.
    const std::size_t first = text.empty() ? 0 : next_character(text, 0);
    if (first < text.size() && aligns.find(text[first]) != aligns.npos) {
        spec.fill = marked.part(0, first);
        spec.align = text[first];
        at = first + 1;
    } else if (!text.empty() && aligns.find(text[0]) != aligns.npos) {
        spec.align = text[at++];
    }
    const auto is = [&](char c) { return at < text.size() && text[at] == c; };
    if (is('+') || is('-') || is(' ')) spec.sign = text[at++];
    if (is('#')) {
        spec.alternate = true;
        ++at;
    }
    if (is('0')) {
        ++at;
        if (spec.align == 0) {
            spec.align = '0';
            spec.fill = {"0", false};
        }
    }
    spec.width = number_at(text, at);
    if (is(',') || is('_')) spec.group = text[at++];
    if (is('.')) {
        const std::size_t digits = ++at;
        spec.precision = number_at(text, at);
        if (at == digits) fail("Format specifier missing precision");
    }
    if (at < text.size()) spec.type = text[at++];
    if (at < text.size()) fail("Invalid format specifier '" + std::string(text) + "'");
    return spec;
}

/// Formats a value as Python's format(item, spec) does. Fails when the specifier does not fit.
marked_text formatted(const value& item, const marked_text& marked_spec, budget& left) {
    const std::string& spec_text = marked_spec.bytes();
    if (spec_text.empty()) return to_text(item, left);
    format_spec spec = spec_of(marked_spec);
    std::int64_t integer = 0;
    double real = 0;
    if (item.is_text()) {
        if ((spec.type != 0 && spec.type != 's') || spec.align == '=' || spec.group != 0) {
            fail("the format specifier '" + spec_text + "' does not fit a text");
        }
        if (spec.align == '0') spec.align = '<';
        return filled(shortened(*item.as_text(), spec.precision), spec, false, left);
    }
    if (!item.to_number(real)) {
        fail("unsupported format string passed to " + type_name(item) + ".__format__");
    }
    if (spec.align == '0') spec.align = '=';
    constexpr std::string_view integers = "bcdoxXn", reals = "eEfFgGn%";
    const bool is_integer = item.to_integer(integer);
    if (is_integer && (spec.type == 0 || integers.find(spec.type) != integers.npos)) {
        if (spec.precision >= 0) fail("Precision not allowed in integer format specifier");
        if (spec.type == 'c') return filled({character_of(integer), true}, spec, true, left);
        return filled({integer_digits(integer, spec), false}, spec, true, left);
    }
    if (spec.type != 0 && reals.find(spec.type) == reals.npos) {
        fail(std::string("Unknown format code '") + spec.type + "' for object of type '" +
             type_name(item) + "'");
    }
    return filled({real_digits(real, spec), false}, spec, true, left);
}

/// Formats by Python's method: format.format(...).
class brace {
  public:
    brace(const arguments& given, budget& left) : given_(given), left_(left) {}

    /// Formats `format`. `depth`: 1, and one more for each specifier around it, since specifiers
    /// may have fields.
    marked_text run(const marked_text& format, unsigned depth) {
        if (depth > 3) fail("Max string recursion exceeded");
        const std::string& text = format.bytes();
        left_.spend_text(text.size());
        marked_text out;
        for (std::size_t at = 0; at < text.size();) {
            const std::size_t mark = std::min(text.find_first_of("{}", at), text.size());
            out.append(format, at, mark);
            if (mark == text.size()) break;
            at = mark + 1;
            if (at < text.size() && text[at] == text[mark]) {
                out.append(format, mark, at++);
                continue;
            }
            if (text[mark] == '}') fail("Single '}' encountered in format string");
            const std::size_t end = end_of_field(text, at);
            const marked_text field = replaced_field(format.part(at, end), depth);
            left_.spend_growth(out.size(), field.size());
            out.append(field);
            at = end + 1;
        }
        return out;
    }

  private:
    /// The position of the brace that closes the field which begins at `at`.
    static std::size_t end_of_field(const std::string& text, std::size_t at) {
        unsigned open = 1;
        for (; at < text.size(); ++at) {
            if (text[at] == '{') ++open;
            if (text[at] == '}' && --open == 0) return at;
        }
        fail("expected '}' before end of string");
    }

    /// Formats a field, name[!conversion][:spec], whose specifier may contain fields itself.
    marked_text replaced_field(const marked_text& field, unsigned depth) {
        left_.spend();
        const std::string& text = field.bytes();
        std::size_t end = 0;
        bool in_brackets = false;
        for (; end < text.size(); ++end) {
            if (text[end] == '[') in_brackets = true;
            if (text[end] == ']') in_brackets = false;
            if (!in_brackets && (text[end] == '!' || text[end] == ':')) break;
        }
        value item = field_value(std::string_view(text).substr(0, end));
        if (end < text.size() && text[end] == '!') {
            const char conversion = end + 1 < text.size() ? text[end + 1] : ' ';
            end += 2;
            if (end < text.size() && text[end] != ':') fail("expected ':' after conversion");
            if (conversion == 's') {
                item = to_text(item, left_);
            } else if (conversion == 'r' || conversion == 'a') {
                item = to_repr(item, left_);
            } else {
                fail("unknown conversion specifier in a format");
            }
        }
        // end is at ':', or at the end for a field without a specifier, whose specifier is then
        // empty.
        const std::size_t begin = std::min(end + 1, text.size());
        const marked_text spec = run(field.part(begin, text.size()), depth + 1);
        return formatted(item, spec, left_);
    }

    /// The value of a field's name with its .attributes and [items].
    value field_value(std::string_view name) {
        const std::size_t end = std::min(name.find_first_of(".["), name.size());
        value found = first_value(name.substr(0, end));
        for (std::size_t at = end; at < name.size();) {
            if (name[at] == '.') {
                const std::size_t part_end =
                    std::min(name.find_first_of(".[", at + 1), name.size());
                if (part_end == at + 1) fail("Empty attribute in format string");
                found = attribute_of(found, name.substr(at + 1, part_end - at - 1), left_);
                at = part_end;
            } else if (name[at] == '[') {
                const std::size_t part_end = name.find(']', at);
                if (part_end == name.npos) fail("Missing ']' in format string");
                found = item_of(found, key_of(name.substr(at + 1, part_end - at - 1)), left_);
                at = part_end + 1;
            } else {
                fail("Only '.' or '[' may follow ']' in format field specifier");
            }
        }
        return found;
    }

    /// Fewer than 10 digits, so that number_of() cannot overflow.
    static bool is_number(std::string_view text) {
        return !text.empty() && text.size() < 10 && std::all_of(text.begin(), text.end(), is_digit);
    }
    static std::int64_t number_of(std::string_view text) { return std::stoll(std::string(text)); }

    /// An item's key in brackets: digits are an index, all else is a text.
    static value key_of(std::string_view text) {
        if (text.empty()) fail("Empty attribute in format string");
        if (is_number(text)) return number_of(text);
        return written(std::string(text));
    }

    /// The argument that a field's name begins with: by number, by its position in the format when
    /// empty, or by name.
    value first_value(std::string_view name) {
        if (name.empty() || is_number(name)) {
            const bool is_automatic = name.empty();
            if ((is_automatic ? manual_ : automatic_) > 0) {
                fail("cannot switch between automatic field numbering and manual ones");
            }
            const auto index =
                is_automatic ? static_cast<std::int64_t>(automatic_) : number_of(name);
            ++(is_automatic ? automatic_ : manual_);
            if (index >= static_cast<std::int64_t>(given_.positional.size())) {
                fail("Replacement index " + std::to_string(index) +
                     " out of range for positional args tuple");
            }
            return given_.positional[static_cast<std::size_t>(index)];
        }
        for (const auto& [own, item] : given_.named) {
            if (own.bytes() == name) return item;
        }
        fail("the format names a missing key: '" + std::string(name) + "'");
    }

    const arguments& given_;
    budget& left_;
    // How many fields had no number and how many had one; a format may have only one kind.
    unsigned automatic_ = 0;
    unsigned manual_ = 0;
};

}  // namespace

value percent_format(const marked_text& format, const value& given, budget& left) {
    return percent(format, given, left).run();
}

value brace_format(const marked_text& format, const arguments& given, budget& left) {
    return brace(given, left).run(format, 1);
}

}  // namespace semantic::engine::jinja
