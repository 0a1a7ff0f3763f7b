// SPDX-License-Identifier: Apache-2.0
// Python's str methods.

#include <algorithm>
#include <array>

#include "engine/text/jinja/builtins/bound_arguments.hpp"
#include "engine/text/jinja/builtins/formatting.hpp"
#include "engine/text/jinja/builtins/methods.hpp"
#include "engine/text/jinja/builtins/operators.hpp"
#include "engine/text/tokenizer/letters.hpp"
#include "engine/text/tokenizer/utf8.hpp"

namespace semantic::engine::jinja {

namespace {

/// Requires: `self` is a text, as for all methods here.
const marked_text& text_of(const value& self) { return *self.as_text(); }

/// The bytes of self[start:stop], whose bounds are the method's arguments `first` and `first` + 1
/// in characters. `begin` is beyond `end` when the start is after the text's end.
byte_range part_of(const marked_text& self, const bound_arguments& given, std::size_t first,
                   budget& left) {
    if (!given.has(first) && !given.has(first + 1)) return {0, self.size()};
    left.spend_bytes(2 * self.size());
    const auto length = static_cast<std::int64_t>(count_characters(self.bytes()));
    const auto byte_at = [&](std::size_t index, std::int64_t otherwise) {
        std::int64_t at = given.has(index) ? given.integer(index, 0) : otherwise;
        if (at < 0) at = std::max<std::int64_t>(at + length, 0);
        at = std::min(at, length + 1);
        const std::size_t byte = byte_of_character(self.bytes(), static_cast<std::size_t>(at));
        // A start after the end is no position at which even an empty text could be found.
        return at > length ? self.size() + 1 : byte;
    };
    return {byte_at(first, 0), std::min(byte_at(first + 1, length), self.size())};
}

enum class end_of_text { start, end };

/// Whether `part` of a text starts or ends with `wanted`, a text or a tuple of them. Fails for
/// other types.
bool has_at(const marked_text& self, byte_range part, const value& wanted, end_of_text where,
            budget& left) {
    if (const list_object* all = wanted.as_list();
        all != nullptr && all->form == list_form::tuple) {
        return std::any_of(all->items.begin(), all->items.end(), [&](const value& one) {
            if (!one.is_text()) fail("tuple for startswith and endswith must only contain str");
            return has_at(self, part, one, where, left);
        });
    }
    require_defined(wanted);
    const marked_text* affix = wanted.as_text();
    if (affix == nullptr) {
        fail("startswith and endswith first arg must be str or a tuple of str, not " +
             type_name(wanted));
    }
    left.spend_bytes(affix->size());
    if (part.begin > part.end) return false;
    const std::string_view text =
        std::string_view(self.bytes()).substr(part.begin, part.end - part.begin);
    return where == end_of_text::start ? text.starts_with(affix->bytes())
                                       : text.ends_with(affix->bytes());
}

value startswith(const value& self, const arguments& all, budget& left) {
    const bound_arguments given("startswith", all, {"prefix", "start", "end"});
    return has_at(text_of(self), part_of(text_of(self), given, 1, left), given.required(0),
                  end_of_text::start, left);
}
value endswith(const value& self, const arguments& all, budget& left) {
    const bound_arguments given("endswith", all, {"suffix", "start", "end"});
    return has_at(text_of(self), part_of(text_of(self), given, 1, left), given.required(0),
                  end_of_text::end, left);
}

value upper(const value& self, const arguments& all, budget& left) {
    expect_no_arguments("upper", all);
    return with_case(text_of(self), letter_case::upper, left);
}
value lower(const value& self, const arguments& all, budget& left) {
    expect_no_arguments("lower", all);
    return with_case(text_of(self), letter_case::lower, left);
}
value capitalize(const value& self, const arguments& all, budget& left) {
    expect_no_arguments("capitalize", all);
    return capitalized(text_of(self), left);
}

value strip(const value& self, const arguments& all, budget& left) {
    const bound_arguments given("strip", all, {"chars"});
    return stripped_text(text_of(self), given[0], true, true, left);
}
value lstrip(const value& self, const arguments& all, budget& left) {
    const bound_arguments given("lstrip", all, {"chars"});
    return stripped_text(text_of(self), given[0], true, false, left);
}
value rstrip(const value& self, const arguments& all, budget& left) {
    const bound_arguments given("rstrip", all, {"chars"});
    return stripped_text(text_of(self), given[0], false, true, left);
}

value replace(const value& self, const arguments& all, budget& left) {
    const bound_arguments given("replace", all, {"old", "new", "count"});
    return replaced(text_of(self), given.required_text(0), given.required_text(1),
                    given.integer(2, -1), left);
}

value join(const value& self, const arguments& all, budget& left) {
    const bound_arguments given("join", all, {"iterable"});
    const list_ptr items = items_of(given.required(0), left);
    for (const value& item : items->items) {
        if (!item.is_text()) fail("join: expected str instance, " + type_name(item) + " found");
    }
    return joined(items->items, text_of(self), left);
}

value format(const value& self, const arguments& all, budget& left) {
    return brace_format(text_of(self), all, left);
}

/// The byte at which `needle` is found in `part` first or, with `from_right`, last; npos when it is
/// not there.
std::size_t found_in(const marked_text& self, const marked_text& needle, byte_range part,
                     bool from_right, budget& left) {
    left.spend_bytes(self.size());
    if (part.begin > part.end) return std::string::npos;
    const std::string_view text = std::string_view(self.bytes()).substr(0, part.end);
    if (!from_right) return find_text(text, needle.bytes(), part.begin);
    // rfind() may compare the whole needle at each byte, so its work is a product.
    left.spend((part.end - part.begin) / 1024 * (1 + needle.size() / 16));
    const std::size_t at = text.substr(part.begin).rfind(needle.bytes());
    return at == std::string_view::npos ? at : part.begin + at;
}

/// The methods find, rfind, index and rindex: the position in characters. Without any, -1, or an
/// error with `must_be`.
value position_of(const value& self, const arguments& all, budget& left, bool from_right,
                  bool must_be) {
    const bound_arguments given("find", all, {"sub", "start", "end"});
    const marked_text& text = text_of(self);
    const std::size_t at =
        found_in(text, given.required_text(0), part_of(text, given, 1, left), from_right, left);
    if (at == std::string::npos) {
        if (must_be) fail("substring not found");
        return -1;
    }
    return count_characters(std::string_view(text.bytes()).substr(0, at));
}

value find(const value& self, const arguments& all, budget& left) {
    return position_of(self, all, left, false, false);
}
value rfind(const value& self, const arguments& all, budget& left) {
    return position_of(self, all, left, true, false);
}
value index(const value& self, const arguments& all, budget& left) {
    return position_of(self, all, left, false, true);
}
value rindex(const value& self, const arguments& all, budget& left) {
    return position_of(self, all, left, true, true);
}

value count(const value& self, const arguments& all, budget& left) {
    const bound_arguments given("count", all, {"sub", "start", "end"});
    const marked_text& text = text_of(self);
    const marked_text& needle = given.required_text(0);
    const byte_range part = part_of(text, given, 1, left);
    left.spend_bytes(text.size());
    if (part.begin > part.end) return 0;
    const std::string_view searched = std::string_view(text.bytes()).substr(0, part.end);
    // An empty text is found around each character.
    if (needle.empty()) return count_characters(searched.substr(part.begin)) + 1;
    std::int64_t times = 0;
    for (std::size_t at = find_text(searched, needle.bytes(), part.begin); at != searched.npos;
         ++times) {
        at = find_text(searched, needle.bytes(), at + needle.size());
    }
    return times;
}

/// The words between runs of white space. `most`: how many splits at most, from the left or the
/// right; negative: any number.
std::vector<byte_range> words_of(std::string_view text, std::int64_t most, bool from_right) {
    std::vector<byte_range> out;
    byte_range rest = stripped(text, !from_right, from_right);
    while (rest.begin < rest.end && most-- != 0) {
        if (from_right) {
            std::size_t begin = rest.end;
            while (begin > rest.begin) {
                const std::size_t last = utf8::start_of_last(text, begin);
                if (is_python_space(character_at(text, last))) break;
                begin = last;
            }
            out.push_back({begin, rest.end});
            rest.end = stripped(text.substr(0, begin), false, true).end;
        } else {
            std::size_t end = rest.begin;
            while (end < rest.end && !is_python_space(character_at(text, end))) {
                end = next_character(text, end);
            }
            out.push_back({rest.begin, end});
            rest.begin = end + stripped(text.substr(end), true, false).begin;
        }
    }
    if (rest.begin < rest.end) {
        // The rest after the last split is stripped only on the side of that split, as in Python.
        const byte_range last =
            stripped(text.substr(rest.begin, rest.end - rest.begin), !from_right, from_right);
        if (last.begin < last.end) out.push_back({rest.begin + last.begin, rest.begin + last.end});
    }
    if (from_right) std::reverse(out.begin(), out.end());
    return out;
}

/// The pieces between separators; `most` and `from_right` as for words_of().
std::vector<byte_range> pieces_of(std::string_view text, std::string_view separator,
                                  std::int64_t most, bool from_right, budget& left) {
    std::vector<byte_range> out;
    byte_range rest{0, text.size()};
    while (most-- != 0) {
        if (from_right) {
            if (rest.end < separator.size()) break;
            const std::size_t at = text.rfind(separator, rest.end - separator.size());
            if (at == text.npos) break;
            // For rfind(), whose work is a product.
            left.spend((rest.end - at) / 1024 * (1 + separator.size() / 16));
            out.push_back({at + separator.size(), rest.end});
            rest.end = at;
        } else {
            const std::size_t at = find_text(text, separator, rest.begin);
            if (at == text.npos) break;
            out.push_back({rest.begin, at});
            rest.begin = at + separator.size();
        }
    }
    out.push_back(rest);
    if (from_right) std::reverse(out.begin(), out.end());
    return out;
}

/// A list of parts of a text.
value pieces(const marked_text& self, const std::vector<byte_range>& ranges, budget& left) {
    left.spend_items(ranges.size());
    left.spend(2 * ranges.size());
    std::vector<value> out;
    out.reserve(ranges.size());
    for (const byte_range& range : ranges) out.push_back(self.part(range.begin, range.end));
    return make_list(std::move(out));
}

/// split() and rsplit(). Without a separator, white space separates.
value split_from(const value& self, const arguments& all, budget& left, bool from_right) {
    const bound_arguments given("split", all, {"sep", "maxsplit"});
    const marked_text& text = text_of(self);
    left.spend_text(text.size());
    const std::int64_t most = given.integer(1, -1);
    if (!given.has(0)) return pieces(text, words_of(text.bytes(), most, from_right), left);
    const marked_text& separator = given.required_text(0);
    if (separator.empty()) fail("empty separator");
    if (from_right) {
        // For rfind() in pieces_of().
        left.spend(text.size() / 1024 * (1 + separator.size() / 16));
    }
    return pieces(text, pieces_of(text.bytes(), separator.bytes(), most, from_right, left), left);
}
value split(const value& self, const arguments& all, budget& left) {
    return split_from(self, all, left, false);
}
value rsplit(const value& self, const arguments& all, budget& left) {
    return split_from(self, all, left, true);
}

value splitlines(const value& self, const arguments& all, budget& left) {
    const bound_arguments given("splitlines", all, {"keepends"});
    left.spend_text(text_of(self).size());
    return pieces(text_of(self), lines_of(text_of(self).bytes(), given.flag(0, false)), left);
}

/// partition() and rpartition(): the text before the separator, the separator, the text after it.
/// Where there is none, the whole text is first, or last from the right.
value partition_from(const value& self, const arguments& all, budget& left, bool from_right) {
    const bound_arguments given("partition", all, {"sep"});
    const marked_text& text = text_of(self);
    const marked_text& separator = given.required_text(0);
    if (separator.empty()) fail("empty separator");
    const std::size_t at = found_in(text, separator, {0, text.size()}, from_right, left);
    if (at == std::string::npos) {
        std::vector<value> whole{marked_text(), marked_text(), self};
        if (!from_right) std::swap(whole[0], whole[2]);
        return make_list(std::move(whole), list_form::tuple);
    }
    const std::size_t rest = at + separator.size();
    // The separator is cut out of the text and not taken from the argument: its bytes may be from a
    // request although the argument is the template's.
    return make_list({text.part(0, at), text.part(at, rest), text.part(rest, text.size())},
                     list_form::tuple);
}
value partition(const value& self, const arguments& all, budget& left) {
    return partition_from(self, all, left, false);
}
value rpartition(const value& self, const arguments& all, budget& left) {
    return partition_from(self, all, left, true);
}

value removeprefix(const value& self, const arguments& all, budget& left) {
    const bound_arguments given("removeprefix", all, {"prefix"});
    const marked_text& prefix = given.required_text(0);
    left.spend_text(text_of(self).size());
    if (!text_of(self).bytes().starts_with(prefix.bytes())) return self;
    return text_of(self).part(prefix.size(), text_of(self).size());
}
value removesuffix(const value& self, const arguments& all, budget& left) {
    const bound_arguments given("removesuffix", all, {"suffix"});
    const marked_text& suffix = given.required_text(0);
    left.spend_text(text_of(self).size());
    if (!text_of(self).bytes().ends_with(suffix.bytes())) return self;
    return text_of(self).part(0, text_of(self).size() - suffix.size());
}

/// The fill of ljust(), rjust() and center(): their argument 1, a blank without one.
marked_text fill_of(const bound_arguments& given) {
    if (given[1] == nullptr) return {" ", false};
    const marked_text& fill = given.required_text(1);
    if (count_characters(fill.bytes()) != 1) fail("the fill must be one character long");
    return fill;
}

/// Pads a text to `width` characters, on the left with `before`. A negative width pads nothing.
value padded(const value& self, std::int64_t width, const marked_text& fill, bool before,
             budget& left) {
    const marked_text& text = text_of(self);
    const auto length = static_cast<std::int64_t>(count_characters(text.bytes()));
    if (width <= length) return self;
    left.spend_text(static_cast<std::size_t>(width) * fill.size());
    marked_text out;
    if (!before) out.append(text);
    for (std::int64_t i = length; i < width; ++i) out.append(fill);
    if (before) out.append(text);
    return out;
}
value ljust(const value& self, const arguments& all, budget& left) {
    const bound_arguments given("ljust", all, {"width", "fillchar"});
    given.required(0);
    return padded(self, given.integer(0, 0), fill_of(given), false, left);
}
value rjust(const value& self, const arguments& all, budget& left) {
    const bound_arguments given("rjust", all, {"width", "fillchar"});
    given.required(0);
    return padded(self, given.integer(0, 0), fill_of(given), true, left);
}
value center(const value& self, const arguments& all, budget& left) {
    const bound_arguments given("center", all, {"width", "fillchar"});
    given.required(0);
    return centered(text_of(self), given.integer(0, 0), fill_of(given), left);
}
/// Pads a number with zeros after its sign.
value zfill(const value& self, const arguments& all, budget& left) {
    const bound_arguments given("zfill", all, {"width"});
    given.required(0);
    const marked_text& text = text_of(self);
    const bool has_sign = !text.empty() && (text.bytes()[0] == '-' || text.bytes()[0] == '+');
    const value digits = text.part(has_sign ? 1 : 0, text.size());
    const value filled =
        padded(digits, given.integer(0, 0) - (has_sign ? 1 : 0), {"0", false}, true, left);
    marked_text out = text.part(0, has_sign ? 1 : 0);
    out.append(text_of(filled));
    return out;
}

/// The first letter of each word in title case, the others in lower case. Words are runs of letters
/// that have cases.
value title(const value& self, const arguments& all, budget& left) {
    expect_no_arguments("title", all);
    const marked_text& text = text_of(self);
    left.spend_characters(text.size());
    marked_text out;
    bool in_word = false;
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t end = next_character(text.bytes(), at);
        const std::int32_t code = character_at(text.bytes(), at);
        // A byte that is no character is kept by append_case().
        if (in_word || code < 0) {
            append_case(out, text, at, end, letter_case::lower);
        } else {
            std::string mapped;
            letters::append_title(mapped, code);
            out.append(mapped, text.is_content(at));
        }
        in_word = letters::is_cased(code);
        at = end;
    }
    return out;
}

/// Exchanges upper and lower case.
value swapcase(const value& self, const arguments& all, budget& left) {
    expect_no_arguments("swapcase", all);
    const marked_text& text = text_of(self);
    left.spend_characters(text.size());
    marked_text out;
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t end = next_character(text.bytes(), at);
        const std::int32_t code = character_at(text.bytes(), at);
        const bool is_upper = letters::is_upper(code);
        if (is_upper || letters::is_lower(code)) {
            append_case(out, text, at, end, is_upper ? letter_case::lower : letter_case::upper);
        } else {
            out.append(text, at, end);
        }
        at = end;
    }
    return out;
}

/// Whether the text is not empty, and `is` holds for each of its characters.
template <class Is>
value all_are(const value& self, const arguments& all, budget& left, const Is& is) {
    expect_no_arguments("a test of characters", all);
    const std::string& bytes = text_of(self).bytes();
    left.spend_characters(bytes.size());
    for (std::size_t at = 0; at < bytes.size(); at = next_character(bytes, at)) {
        if (!is(character_at(bytes, at))) return false;
    }
    return !bytes.empty();
}

value isalnum(const value& self, const arguments& all, budget& left) {
    return all_are(self, all, left, [](std::int32_t code) {
        return letters::is_alpha(code) || letters::is_numeric(code);
    });
}
value isalpha(const value& self, const arguments& all, budget& left) {
    return all_are(self, all, left, letters::is_alpha);
}
value isascii(const value& self, const arguments& all, budget& left) {
    // Unlike the other tests it holds for an empty text.
    if (text_of(self).empty()) return true;
    return all_are(self, all, left, [](std::int32_t code) { return code >= 0 && code < 0x80; });
}
value isdecimal(const value& self, const arguments& all, budget& left) {
    return all_are(self, all, left, letters::is_decimal);
}
value isdigit(const value& self, const arguments& all, budget& left) {
    return all_are(self, all, left, letters::is_digit);
}
value isnumeric(const value& self, const arguments& all, budget& left) {
    return all_are(self, all, left, letters::is_numeric);
}
value isspace(const value& self, const arguments& all, budget& left) {
    return all_are(self, all, left, is_python_space);
}
/// Whether there are lower case letters and no others with a case.
value islower(const value& self, const arguments& all, budget& left) {
    bool any = false;
    const value none_other = all_are(self, all, left, [&](std::int32_t code) {
        any |= letters::is_lower(code);
        return !letters::is_upper(code) && !letters::is_title(code);
    });
    return any && is_true(none_other);
}
/// Whether there are upper case letters and no others with a case.
value isupper(const value& self, const arguments& all, budget& left) {
    bool any = false;
    const value none_other = all_are(self, all, left, [&](std::int32_t code) {
        any |= letters::is_upper(code);
        return !letters::is_lower(code) && !letters::is_title(code);
    });
    return any && is_true(none_other);
}

constexpr std::array methods{
    named_method{"capitalize", capitalize},
    // casefold() differs from lower() only for a few letters, such as the German sharp s.
    named_method{"casefold", lower},
    named_method{"center", center},
    named_method{"count", count},
    named_method{"encode", nullptr},
    named_method{"endswith", endswith},
    named_method{"expandtabs", nullptr},
    named_method{"find", find},
    named_method{"format", format},
    named_method{"format_map", nullptr},
    named_method{"index", index},
    named_method{"isalnum", isalnum},
    named_method{"isalpha", isalpha},
    named_method{"isascii", isascii},
    named_method{"isdecimal", isdecimal},
    named_method{"isdigit", isdigit},
    named_method{"isidentifier", nullptr},
    named_method{"islower", islower},
    named_method{"isnumeric", isnumeric},
    named_method{"isprintable", nullptr},
    named_method{"isspace", isspace},
    named_method{"istitle", nullptr},
    named_method{"isupper", isupper},
    named_method{"join", join},
    named_method{"ljust", ljust},
    named_method{"lower", lower},
    named_method{"lstrip", lstrip},
    named_method{"maketrans", nullptr},
    named_method{"partition", partition},
    named_method{"removeprefix", removeprefix},
    named_method{"removesuffix", removesuffix},
    named_method{"replace", replace},
    named_method{"rfind", rfind},
    named_method{"rindex", rindex},
    named_method{"rjust", rjust},
    named_method{"rpartition", rpartition},
    named_method{"rsplit", rsplit},
    named_method{"rstrip", rstrip},
    named_method{"split", split},
    named_method{"splitlines", splitlines},
    named_method{"startswith", startswith},
    named_method{"strip", strip},
    named_method{"swapcase", swapcase},
    named_method{"title", title},
    named_method{"translate", nullptr},
    named_method{"upper", upper},
    named_method{"zfill", zfill},
};

}  // namespace

std::span<const named_method> text_methods() { return methods; }

}  // namespace semantic::engine::jinja
