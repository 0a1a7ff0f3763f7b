// SPDX-License-Identifier: Apache-2.0
// Decides whether a text may be cut at a byte without changing its tokens. A wrong "yes" would
// store KV of wrong tokens, a wrong "no" only costs some prefill; so the answer is "no" if in
// doubt.

#include <algorithm>

#include "engine/text/tokenizer/tokenizer_state.hpp"
#include "engine/text/tokenizer/utf8.hpp"

namespace semantic::engine {

namespace {

// How many bytes on each side of a cut are looked at, and from how many of them the splitter runs;
// more would only find more cuts.
constexpr std::size_t window_bytes = 512;
constexpr std::size_t starts_tried = 32;

enum class kind { space, word, other };

kind kind_of(std::int32_t code) {
    if (utf8::is_space(code)) return kind::space;
    return utf8::is_word(code) ? kind::word : kind::other;
}

/// Whether `text` changes its kind of character at least twice. Then a run of one kind that begins
/// before it ends inside it, and so does a pattern that looks one run further.
bool is_varied(std::string_view text) {
    int changes = 0;
    kind last = kind_of(utf8::next(text).code);
    for (std::size_t at = 0; at < text.size() && changes < 2;) {
        const utf8::step s = utf8::next(text.substr(at));
        const kind now = kind_of(s.code);
        if (now != last) ++changes;
        last = now;
        at += s.length;
    }
    return changes >= 2;
}

std::string_view last_bytes(std::string_view text, std::size_t count) {
    if (text.size() <= count) return text;
    std::size_t from = text.size() - count;
    while (from < text.size() && utf8::is_continuation(text[from])) ++from;
    return text.substr(from);
}

std::string_view first_bytes(std::string_view text, std::size_t count) {
    if (text.size() <= count) return text;
    while (count > 0 && utf8::is_continuation(text[count])) --count;
    return text.substr(0, count);
}

/// The first byte of `tail` that no added token, begun before it, can cross: searching may begin
/// there. `is_whole`: nothing comes before `tail`.
std::size_t clean_start(const added_token_finder& finder, std::string_view tail,
                        const content_view& content, bool is_whole) {
    if (is_whole || finder.empty()) return 0;
    std::size_t at = std::min(tail.size(), finder.longest());
    while (at < tail.size() &&
           (utf8::is_continuation(tail[at]) || finder.crosses(tail, at, content)))
        ++at;
    return at;
}

/// Whether the tokens that were found in the whole text are those found in its two parts. `cut`:
/// the byte at which the second part begins.
bool same_hits(const std::vector<added_token_finder::hit>& left,
               const std::vector<added_token_finder::hit>& right,
               const std::vector<added_token_finder::hit>& both, std::size_t cut) {
    if (left.size() + right.size() != both.size()) return false;
    for (std::size_t i = 0; i < both.size(); ++i) {
        const bool in_left = i < left.size();
        const auto& part = in_left ? left[i] : right[i - left.size()];
        const std::size_t shift = in_left ? 0 : cut;
        if (both[i].id != part.id || both[i].where.begin != part.where.begin + shift ||
            both[i].where.end != part.where.end + shift) {
            return false;
        }
    }
    return true;
}

/// Whether the pieces of the whole text are those of its two parts. `cut`: the byte at which the
/// second part begins.
template <class Piece>
bool same_pieces(const std::vector<Piece>& left, const std::vector<Piece>& right,
                 const std::vector<Piece>& both, std::size_t cut) {
    if (left.size() + right.size() != both.size()) return false;
    if (!std::equal(left.begin(), left.end(), both.begin())) return false;
    for (std::size_t i = 0; i < right.size(); ++i) {
        Piece moved = right[i];
        moved.where.begin += cut;
        moved.where.end += cut;
        if (!(moved == both[left.size() + i])) return false;
    }
    return true;
}

}  // namespace

bool tokenizer::impl::parts(std::string_view tail, std::string_view head, bool anchored,
                            bool has_content) const {
    if (normal.prepends() || splitter.adds_prefix_space() || !normal.parts_before(head))
        return false;
    const std::string left = normal.apply(tail).text;
    const std::string right = normal.apply(head).text;
    const std::string both = normal.apply(std::string(tail) + std::string(head)).text;
    if (both != left + right || left.empty() || right.empty()) return false;
    if (added_normalized.crosses(both, left.size())) return false;
    // What spells a special token here may be content.
    if (has_content && added_normalized.has_special() && !added_normalized.find_all(both).empty())
        return false;
    const std::vector<piece> right_pieces = pieces(right);
    // It is not known where pieces begin at the left end of the window. So the splitter runs from
    // every byte where one could begin; the cut is safe only if all runs agree about it.
    std::size_t last_begin = left.size();
    std::size_t start = 0;
    const std::size_t tries = anchored ? 1 : starts_tried;
    for (std::size_t tried = 0; tried < tries; ++tried) {
        if (start >= left.size()) return false;
        const std::string_view from = std::string_view(left).substr(start);
        const std::vector<piece> left_pieces = pieces(from);
        if (left_pieces.empty() ||
            !same_pieces(left_pieces, right_pieces, pieces(std::string_view(both).substr(start)),
                         from.size())) {
            return false;
        }
        const std::size_t begin = start + left_pieces.back().where.begin;
        if (tried > 0 && begin != last_begin) return false;
        last_begin = begin;
        start += utf8::next(from).length;
    }
    return true;
}

bool tokenizer::is_safe_boundary(std::string_view left, std::string_view right,
                                 std::span<const text_range> content) const {
    if (left.empty() || right.empty()) return true;
    if (utf8::is_continuation(right.front())) return false;
    const added_token_finder& finder = impl_->added;
    const std::string_view tail = last_bytes(left, window_bytes + 2 * finder.longest());
    const std::string_view head = first_bytes(right, window_bytes + finder.longest());
    if (head.empty()) return false;
    const bool whole_left = tail.size() == left.size();
    const std::size_t tail_at = left.size() - tail.size();
    const std::string both = std::string(tail) + std::string(head);
    if (finder.crosses(both, tail.size(), {content, tail_at})) return false;

    const std::size_t start = clean_start(finder, tail, {content, tail_at}, whole_left);
    const std::string_view clean = tail.substr(start);
    const auto left_hits = finder.find_all(clean, {content, tail_at + start});
    const auto right_hits = finder.find_all(head, {content, left.size()});
    const auto both_hits =
        finder.find_all(std::string_view(both).substr(start), {content, tail_at + start});
    if (!same_hits(left_hits, right_hits, both_hits, clean.size())) return false;
    if (!left_hits.empty() && left_hits.back().where.end == clean.size()) return true;
    if (!right_hits.empty() && right_hits.front().where.begin == 0) return true;

    // A head that goes on after the window decides nothing about its end, unless it is varied.
    const bool head_is_section = !right_hits.empty() || head.size() == right.size();
    if (!head_is_section && !is_varied(head)) return false;
    const std::size_t section = left_hits.empty() ? 0 : left_hits.back().where.end;
    const bool anchored = !left_hits.empty() || (whole_left && start == 0);
    const std::size_t head_end = right_hits.empty() ? head.size() : right_hits.front().where.begin;
    return impl_->parts(clean.substr(section), head.substr(0, head_end), anchored,
                        !content.empty());
}

}  // namespace semantic::engine
