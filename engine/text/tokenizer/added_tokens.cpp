// SPDX-License-Identifier: Apache-2.0
#include "engine/text/tokenizer/added_tokens.hpp"

#include <algorithm>

#include "engine/text/tokenizer/utf8.hpp"

namespace semantic::engine {

namespace {

/// Whether a character of words ends at byte `at`.
bool word_before(std::string_view text, std::size_t at) {
    if (at == 0) return false;
    const std::size_t begin = utf8::start_of_last(text, at);
    return utf8::is_word(utf8::next(text.substr(begin, at - begin)).code);
}

/// Whether a character of words begins at byte `at`.
bool word_behind(std::string_view text, std::size_t at) {
    return at < text.size() && utf8::is_word(utf8::next(text.substr(at)).code);
}

std::size_t skip_space_before(std::string_view text, std::size_t at) {
    while (at > 0) {
        const std::size_t begin = utf8::start_of_last(text, at);
        if (!utf8::is_space(utf8::next(text.substr(begin, at - begin)).code)) break;
        at = begin;
    }
    return at;
}

std::size_t skip_space_behind(std::string_view text, std::size_t at) {
    while (at < text.size()) {
        const utf8::step s = utf8::next(text.substr(at));
        if (!utf8::is_space(s.code)) break;
        at += s.length;
    }
    return at;
}

}  // namespace

bool content_view::touches(text_range where) const {
    if (ranges.empty()) return false;
    if (moved != nullptr) where = {moved->source_end(where.begin), moved->source_end(where.end)};
    where = {begin + where.begin, begin + where.end};
    const auto next = std::upper_bound(
        ranges.begin(), ranges.end(), where.begin,
        [](std::size_t place, const text_range& range) { return place < range.end; });
    // An empty range counts as the byte at which it is.
    return next != ranges.end() && next->begin < std::max(where.end, where.begin + 1);
}

void added_token_finder::add(std::string_view spelling, const added_token& token) {
    if (spelling.empty()) return;
    std::int32_t at = 0;
    for (const char c : spelling) {
        const auto byte = static_cast<unsigned char>(c);
        std::int32_t below = child(at, c);
        if (below == 0) {
            below = static_cast<std::int32_t>(nodes_.size());
            nodes_[static_cast<std::size_t>(at)].children[byte] = below;
            if (at == 0) first_[byte] = below;
            nodes_.emplace_back();
        }
        at = below;
    }
    nodes_[static_cast<std::size_t>(at)].rule = static_cast<std::int32_t>(rules_.size());
    rules_.push_back(token);
    longest_ = std::max(longest_, spelling.size());
    looks_around_ = looks_around_ || token.single_word || token.lstrip || token.rstrip;
    has_special_ = has_special_ || token.special;
}

std::int32_t added_token_finder::child(std::int32_t from, char byte) const {
    const auto key = static_cast<unsigned char>(byte);
    if (from == 0) return first_[key];
    const auto& children = nodes_[static_cast<std::size_t>(from)].children;
    const auto found = children.find(key);
    return found == children.end() ? 0 : found->second;
}

std::int32_t added_token_finder::longest_at(std::string_view text, std::size_t at,
                                            const content_view& content, std::size_t& end) const {
    const std::size_t begin = at;
    std::int32_t rule = -1;
    std::int32_t below = 0;
    while (at < text.size() && (below = child(below, text[at])) != 0) {
        ++at;
        const std::int32_t here = nodes_[static_cast<std::size_t>(below)].rule;
        if (here < 0) continue;
        if (rules_[static_cast<std::size_t>(here)].special && content.touches({begin, at}))
            continue;
        rule = here;
        end = at;
    }
    return rule;
}

std::vector<added_token_finder::hit> added_token_finder::find_all(
    std::string_view text, const content_view& content) const {
    std::vector<hit> hits;
    if (rules_.empty()) return hits;
    std::size_t taken = 0;  // end of the last hit, with the white space it took
    for (std::size_t at = 0;;) {
        while (at < text.size() && first_[static_cast<unsigned char>(text[at])] == 0) ++at;
        if (at == text.size()) break;
        std::size_t end = at;
        const std::int32_t rule = longest_at(text, at, content, end);
        if (rule < 0) {
            ++at;
            continue;
        }
        const added_token& token = rules_[static_cast<std::size_t>(rule)];
        const text_range spelling{at, end};
        text_range where = spelling;
        at = end;
        // It begins in the white space that the last hit took.
        if (where.begin < taken) continue;
        if (token.single_word && (word_before(text, where.begin) || word_behind(text, where.end))) {
            continue;
        }
        if (token.lstrip) where.begin = std::max(taken, skip_space_before(text, where.begin));
        if (token.rstrip) where.end = skip_space_behind(text, where.end);
        taken = where.end;
        hits.push_back({where, token.id, spelling});
    }
    return hits;
}

bool added_token_finder::crosses(std::string_view text, std::size_t at,
                                 const content_view& content) const {
    if (rules_.empty() || at >= text.size()) return false;
    // A spelling that crosses `at` begins at most its length less one before it.
    const std::size_t reach = std::min(at, longest_ == 0 ? 0 : longest_ - 1);
    for (std::size_t begin = at - reach; begin < at; ++begin) {
        std::size_t end = begin;
        if (longest_at(text, begin, content, end) >= 0 && end > at) return true;
    }
    return false;
}

}  // namespace semantic::engine
