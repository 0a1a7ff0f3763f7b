// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler/policy/kept_places.hpp"

#include <algorithm>
#include <optional>

namespace semantic::engine {

namespace {

// A shorter beginning costs less to read again than a state takes of memory and disk.
constexpr int root_tokens_min = 32;
// So many of a prompt's latest user messages get a place. Prompts seldom diverge at earlier ones.
constexpr std::size_t messages_max = 2;
// A place of the ladder is left out if another place follows within this part (1/4) of its step.
constexpr int ladder_share = 4;

/// Of the kept places for which is_meant() is true, keeps only the last `count`.
void keep_last(std::span<const place_entry> places, std::vector<bool>& kept, int count,
               bool (*is_meant)(const place_entry&)) {
    for (std::size_t i = places.size(); i-- > 0;)
        if (kept[i] && is_meant(places[i])) kept[i] = count-- > 0;
}

/// Tokens between the kept places before and after place `i`: the gap if `i` is dropped.
int gap_without(std::span<const place_entry> places, const std::vector<bool>& kept, std::size_t i) {
    int before = 0;
    for (std::size_t k = 0; k < i; ++k)
        if (kept[k]) before = places[k].tokens;
    for (std::size_t k = i + 1; k < places.size(); ++k)
        if (kept[k]) return places[k].tokens - before;
    return places[i].tokens - before;
}

}  // namespace

std::vector<planned_place> plan_places(const prompt_places& prompt, int known, int prompt_tokens,
                                       const place_rules& rules) {
    std::vector<planned_place> places;
    const auto add = [&](int tokens, bool is_root) {
        const int place = tokens - tokens % rules.grain;
        if (place > known && place < prompt_tokens) places.push_back({place, is_root});
    };
    if (prompt.root >= root_tokens_min) add(prompt.root, true);
    const std::size_t messages = prompt.messages.size();
    for (std::size_t i = messages - std::min(messages, messages_max); i < messages; ++i)
        add(prompt.messages[i], false);
    add(prompt.generation, false);
    // The places so far: steps of the ladder are compared with these, and not with each other.
    std::vector<int> others;
    for (const planned_place& each : places) others.push_back(each.tokens);
    // A step so near to the prompt's end is left out: the memory's end, which follows, is kept.
    const int end = prompt_tokens - rules.ladder / ladder_share;
    for (int step = known / rules.ladder * rules.ladder + rules.ladder; step <= end;
         step += rules.ladder) {
        const bool is_close = std::ranges::any_of(others, [&](int other) {
            return other >= step && other - step < rules.ladder / ladder_share;
        });
        if (!is_close) add(step, false);
    }
    // Of equal places the root comes first, so that it is the one that stays.
    std::ranges::sort(places, [](const planned_place& a, const planned_place& b) {
        return a.tokens != b.tokens ? a.tokens < b.tokens : a.is_root && !b.is_root;
    });
    const auto same = [](const planned_place& a, const planned_place& b) {
        return a.tokens == b.tokens;
    };
    places.erase(std::unique(places.begin(), places.end(), same), places.end());
    return places;
}

int place_behind(std::span<const planned_place> places, int position) {
    const auto next = std::ranges::upper_bound(places, position, {}, &planned_place::tokens);
    return next == places.end() ? 0 : next->tokens;
}

std::vector<bool> choose_places(std::span<const place_entry> places, const place_rules& rules) {
    std::vector<bool> kept(places.size(), true);
    keep_last(places, kept, rules.per_turn,
              [](const place_entry& each) { return each.is_new && !each.is_root; });
    // Roots beyond their number are as any other place.
    std::vector<bool> is_root(places.size());
    int roots = rules.roots;
    for (std::size_t i = places.size(); i-- > 0;)
        is_root[i] = kept[i] && places[i].is_root && roots-- > 0;
    const auto count_others = [&] {
        int count = 0;
        for (std::size_t i = 0; i < places.size(); ++i) count += kept[i] && !is_root[i] ? 1 : 0;
        return count;
    };
    for (int left = count_others(); left > std::max(rules.per_agent, 2); --left) {
        std::optional<std::size_t> least;
        int newest = 2;
        for (std::size_t i = places.size(); i-- > 0;) {
            if (!kept[i] || is_root[i] || newest-- > 0) continue;
            const int gap = gap_without(places, kept, i);
            if (!least || gap <= gap_without(places, kept, *least)) least = i;
        }
        // There is one, because more than the newest two are left.
        kept[*least] = false;
    }
    return kept;
}

}  // namespace semantic::engine
