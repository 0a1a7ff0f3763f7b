// SPDX-License-Identifier: Apache-2.0
// Operations that text methods and filters share. They copy texts piece by piece, so that each byte
// keeps its mark, which says whether it is from a request.

#include <algorithm>
#include <set>
#include <string>

#include "engine/text/jinja/builtins/methods.hpp"
#include "engine/text/jinja/values/print.hpp"
#include "engine/text/tokenizer/letters.hpp"
#include "engine/text/tokenizer/utf8.hpp"

namespace semantic::engine::jinja {

namespace {

// The Greek capital sigma, whose small letter has another form at the end of a word.
constexpr std::int32_t sigma = 0x3a3;

/// Whether the sigma at byte `at` ends a word: a letter precedes it, and none follows. Ignorable
/// characters, such as accents, are passed over.
bool is_final(std::string_view text, std::size_t at) {
    std::size_t before = at;
    bool letter_before = false;
    while (before > 0 && !letter_before) {
        before = utf8::start_of_last(text, before);
        const std::int32_t code = character_at(text, before);
        if (letters::is_ignorable(code)) continue;
        letter_before = letters::is_cased(code);
        break;
    }
    if (!letter_before) return false;
    for (std::size_t next = next_character(text, at); next < text.size();
         next = next_character(text, next)) {
        const std::int32_t code = character_at(text, next);
        if (!letters::is_ignorable(code)) return !letters::is_cased(code);
    }
    return true;
}

/// The character at byte `at` in another case; it may become several characters.
std::string with_case(std::string_view text, std::size_t at, letter_case to) {
    const std::int32_t code = character_at(text, at);
    std::string out;
    // An invalid byte has no case.
    if (code < 0) {
        out = text.substr(at, next_character(text, at) - at);
    } else if (to == letter_case::upper) {
        letters::append_upper(out, code);
    } else if (code == sigma && is_final(text, at)) {
        out = "\xCF\x82";  // the small final sigma
    } else {
        letters::append_lower(out, code);
    }
    return out;
}

/// Python's line ends: \n \v \f \r, the separators 0x1c to 0x1e, U+0085, U+2028 and U+2029.
bool is_line_end(std::int32_t code) {
    return (code >= 0x0a && code <= 0x0d) || (code >= 0x1c && code <= 0x1e) || code == 0x85 ||
           code == 0x2028 || code == 0x2029;
}

}  // namespace

void append_case(marked_text& out, const marked_text& text, std::size_t begin, std::size_t end,
                 letter_case to) {
    const std::string& bytes = text.bytes();
    for (std::size_t at = begin; at < end;) {
        // A run of ASCII bytes with the same mark is mapped in one piece, of about 64 bytes.
        std::size_t run = at;
        const bool marked = text.is_content(at);
        std::string mapped;
        while (run < end && static_cast<unsigned char>(bytes[run]) < 0x80 &&
               (run == at || run % 64 != 0) && text.is_content(run) == marked) {
            const char c = bytes[run++];
            const bool upper = c >= 'A' && c <= 'Z', lower = c >= 'a' && c <= 'z';
            const bool changes = to == letter_case::upper ? lower : upper;
            mapped += changes ? static_cast<char>(c ^ 0x20) : c;
        }
        if (run == at) {
            mapped = with_case(bytes, at, to);
            run = next_character(bytes, at);
        }
        out.append(mapped, marked);
        at = run;
    }
}

marked_text with_case(const marked_text& text, letter_case to, budget& left) {
    left.spend_characters(text.size());
    marked_text out;
    append_case(out, text, 0, text.size(), to);
    return out;
}

/// The first character in title case, the rest in lower case.
marked_text capitalized(const marked_text& text, budget& left) {
    if (text.empty()) return {};
    left.spend_characters(text.size());
    const std::size_t first = next_character(text.bytes(), 0);
    marked_text out;
    std::string title;
    const std::int32_t code = character_at(text.bytes(), 0);
    if (code < 0) {
        title = text.bytes().substr(0, first);
    } else {
        letters::append_title(title, code);
    }
    out.append(title, text.is_content(0));
    append_case(out, text, first, text.size(), letter_case::lower);
    return out;
}

marked_text replaced(const marked_text& text, const marked_text& old, const marked_text& by,
                     std::int64_t count, budget& left) {
    left.spend_text(text.size());
    const std::string& bytes = text.bytes();
    marked_text out;
    std::size_t at = 0;
    const auto put = [&] {
        left.spend_growth(out.size(), by.size());
        out.append(by);
        if (count > 0) --count;
    };
    if (old.empty()) {
        // As in Python, `by` is put in front of the first character and after each.
        while (count != 0) {
            put();
            if (at == bytes.size()) return out;
            const std::size_t end = next_character(bytes, at);
            out.append(text, at, end);
            at = end;
        }
    }
    while (count != 0) {
        const std::size_t found = find_text(bytes, old.bytes(), at);
        if (found == std::string::npos) break;
        out.append(text, at, found);
        put();
        at = found + old.size();
    }
    out.append(text, at, bytes.size());
    return out;
}

/// `set` null or none: white space is stripped. Fails when it is no text.
marked_text stripped_text(const marked_text& text, const value* set, bool on_left, bool on_right,
                          budget& left) {
    left.spend_text(text.size());
    const std::string& bytes = text.bytes();
    if (set == nullptr || set->is_none()) {
        const byte_range kept = stripped(bytes, on_left, on_right);
        return text.part(kept.begin, kept.end);
    }
    require_defined(*set);
    const marked_text* characters = set->as_text();
    if (characters == nullptr) fail("strip arg must be None or str, not " + type_name(*set));
    left.spend_items(characters->size());
    std::set<std::string_view> these;
    const std::string_view all = characters->bytes();
    for (std::size_t at = 0; at < all.size();) {
        const std::size_t end = next_character(all, at);
        these.insert(all.substr(at, end - at));
        at = end;
    }
    std::size_t begin = 0, end = bytes.size();
    const std::string_view view = bytes;
    while (on_left && begin < end &&
           these.contains(view.substr(begin, next_character(view, begin) - begin))) {
        begin = next_character(view, begin);
    }
    while (on_right && end > begin) {
        const std::size_t last = utf8::start_of_last(view, end);
        if (!these.contains(view.substr(last, end - last))) break;
        end = last;
    }
    return text.part(begin, end);
}

std::vector<byte_range> lines_of(std::string_view text, bool with_ends) {
    std::vector<byte_range> out;
    std::size_t begin = 0;
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t end = next_character(text, at);
        if (!is_line_end(character_at(text, at))) {
            at = end;
            continue;
        }
        // "\r\n" is one line end.
        const bool two = text[at] == '\r' && end < text.size() && text[end] == '\n';
        const std::size_t next = two ? end + 1 : end;
        out.push_back({begin, with_ends ? next : at});
        begin = at = next;
    }
    if (begin < text.size()) out.push_back({begin, text.size()});
    return out;
}

marked_text joined(const std::vector<value>& items, const marked_text& separator, budget& left) {
    marked_text out;
    for (std::size_t i = 0; i < items.size(); ++i) {
        if (i > 0) out.append(separator);
        const marked_text part = to_text(items[i], left);
        left.spend_growth(out.size(), part.size() + separator.size());
        out.append(part);
    }
    return out;
}

marked_text centered(const marked_text& text, std::int64_t width, const marked_text& fill,
                     budget& left) {
    const auto length = static_cast<std::int64_t>(count_characters(text.bytes()));
    if (width <= length) return text;
    left.spend_text(static_cast<std::size_t>(width) * fill.size());
    const std::int64_t margin = width - length;
    // Python's way: the odd blank is on the left only if the width is odd, too.
    const std::int64_t before = margin / 2 + (margin & width & 1);
    marked_text out;
    for (std::int64_t i = 0; i < before; ++i) out.append(fill);
    out.append(text);
    for (std::int64_t i = before; i < margin; ++i) out.append(fill);
    return out;
}

}  // namespace semantic::engine::jinja
