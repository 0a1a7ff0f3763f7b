// SPDX-License-Identifier: Apache-2.0
#include "engine/prompt/prefix_match.hpp"

#include <algorithm>

#include "storage/agents/prefix_index.hpp"

namespace semantic::engine {

namespace {

// A safe cut is usually at most a word away. In a text without one (a megabyte of one letter) the
// search would tokenise again for each token, so after this many checks it only accepts special
// tokens.
constexpr int slow_checks_max = 128;

/// The match of the first `tokens` stored tokens; a miss if there are none, unless it is exact.
prefix_match cut_at(match_kind kind, const stored_prefix& stored, std::size_t tokens,
                    std::size_t common) {
    std::size_t bytes = tokens == 0 ? 0 : stored.token_ends[tokens - 1];
    return {tokens == 0 && kind != match_kind::exact ? match_kind::miss : kind, tokens, bytes,
            common};
}

/// Returns: how many of the first `limit` stored tokens can be reused: they lie within the first
/// `common` bytes of the prompt, and the prompt can be cut safely after them. 0 if none.
std::size_t last_safe_boundary(const stored_prefix& stored, std::size_t limit,
                               std::string_view prompt, std::size_t common,
                               const boundary_rules& rules) {
    auto first_behind =
        std::upper_bound(stored.token_ends.begin(), stored.token_ends.end(), common);
    int slow_checks = 0;
    const auto common_tokens = static_cast<std::size_t>(first_behind - stored.token_ends.begin());
    for (std::size_t i = std::min(common_tokens, limit); i > 0; --i) {
        std::size_t end = stored.token_ends[i - 1];
        if (end >= prompt.size() || is_inside_character(prompt, end)) continue;
        bool splits_a_character = i < stored.tokens.size() && stored.token_ends[i] == end;
        if (splits_a_character) continue;
        if (rules.special(stored.tokens[i - 1])) return i;
        if (slow_checks < slow_checks_max) {
            ++slow_checks;
            if (rules.safe_cut(end)) return i;
        }
    }
    return 0;
}

}  // namespace

std::size_t common_bytes(const stored_prefix& stored, const prompt_view& prompt,
                         const boundary_rules& rules) {
    const std::size_t common = storage::common_prefix_bytes(stored.text, prompt.text);
    auto next = prompt.control.begin();
    std::size_t begin = 0;
    for (std::size_t i = 0; i < stored.tokens.size() && begin < common; ++i) {
        const std::size_t end = stored.token_ends[i];
        const bool prompt_has_control = next != prompt.control.end() && next->where.begin < end;
        if (rules.control(stored.tokens[i], stored.text.substr(begin, end - begin))) {
            // Some control tokens include the white space after them: if this one ends later in the
            // prompt, the texts already differ at its beginning.
            if (!prompt_has_control || next->id != stored.tokens[i] || next->where.end > end)
                return prompt_has_control ? std::min(begin, next->where.begin) : begin;
            ++next;
        } else if (prompt_has_control && next->where.begin < common) {
            return next->where.begin;
        }
        begin = end;
    }
    return common;
}

prefix_match match_prefix(const stored_prefix& stored, const prompt_view& asked,
                          const boundary_rules& rules) {
    const std::string_view prompt = asked.text;
    if (stored.tokens.empty() || prompt.empty()) return {};
    const std::size_t common = common_bytes(stored, asked, rules);

    if (common == prompt.size()) {
        // The prompt ends inside or at the end of the stored text. If a stored token ends just
        // there, that token runs again for its logits, and all before it are reused.
        auto next = std::upper_bound(stored.token_ends.begin(), stored.token_ends.end(), common);
        auto count = static_cast<std::size_t>(next - stored.token_ends.begin());
        if (count > 0 && stored.token_ends[count - 1] == common)
            return cut_at(match_kind::exact, stored, count - 1, common);
    } else if (common == stored.text.size() &&
               (!is_inside_character(prompt, common) || rules.spells_rest_of_character(common))) {
        return cut_at(match_kind::extend, stored, stored.tokens.size(), common);
    }
    return cut_at(match_kind::diverge, stored,
                  last_safe_boundary(stored, stored.tokens.size(), prompt, common, rules), common);
}

prefix_match match_read_prefix(const stored_prefix& stored, const prompt_view& prompt,
                               const boundary_rules& rules) {
    const prefix_match found = match_prefix(stored, prompt, rules);
    if (found.kind != match_kind::extend) return found;
    const std::size_t tokens =
        last_safe_boundary(stored, stored.tokens.size(), prompt.text, found.common_bytes, rules);
    return cut_at(match_kind::extend, stored, tokens, found.common_bytes);
}

prefix_match match_canonical_prefix(const stored_prefix& stored, std::size_t canonical,
                                    const prompt_view& prompt, const boundary_rules& rules) {
    if (stored.tokens.empty() || prompt.text.empty()) return {};
    const std::size_t common = common_bytes(stored, prompt, rules);
    const std::size_t tokens = last_safe_boundary(stored, canonical, prompt.text, common, rules);
    const bool all = tokens == stored.tokens.size();
    return cut_at(all ? match_kind::extend : match_kind::diverge, stored, tokens, common);
}

prefix_match match_tokens(const stored_prefix& stored, const stored_prefix& prompt) {
    if (stored.tokens.empty() || prompt.tokens.empty()) return {};
    const std::size_t common = storage::common_prefix_bytes(stored.text, prompt.text);
    auto parting = std::ranges::mismatch(stored.tokens, prompt.tokens).in2;
    auto tokens = static_cast<std::size_t>(parting - prompt.tokens.begin());
    tokens = std::min(tokens, prompt.tokens.size() - 1);
    // A normalizer can give different texts equal tokens: those beyond the common bytes do not
    // count.
    while (tokens > 0 && prompt.token_ends[tokens - 1] > common) --tokens;
    const bool all = tokens == stored.tokens.size();
    return cut_at(all ? match_kind::extend : match_kind::diverge, prompt, tokens, common);
}

}  // namespace semantic::engine
