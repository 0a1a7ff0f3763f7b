// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler/policy/draft_plan.hpp"

#include <algorithm>
#include <bit>

namespace semantic::engine {

namespace {

// Drafts must make tokens come faster by this factor: the measured costs are not exact.
constexpr double gain_least = 1.03;
// How far a chance moves towards 1 or 0 with each token that was right or wrong, and back to its
// initial value with each draft that was not run.
constexpr double newest_run_share = 0.125;
constexpr double forgotten_share = 1.0 / 64;
constexpr std::size_t band_first = 2;  // the bit width of 3, the shortest match

struct draft_token {
    std::size_t draft = 0;
    double chance = 0;  // that it and all tokens before it in its draft are right
};

// Returns: the likeliest tokens of all drafts, at most draft_tokens_most, likeliest first. A token
// is never likelier than those before it in its draft, so each draft's tokens come in their order.
std::vector<draft_token> find_surest(std::span<const draft_view> drafts) {
    std::vector<draft_token> tokens;
    for (std::size_t i = 0; i < drafts.size(); ++i) {
        double chance = 1;
        for (int k = 0; k < std::min(drafts[i].tokens, draft_tokens_most); ++k) {
            chance *= drafts[i].chance;
            tokens.push_back({i, chance});
        }
    }
    std::ranges::stable_sort(tokens, std::ranges::greater(), &draft_token::chance);
    tokens.resize(std::min(tokens.size(), static_cast<std::size_t>(draft_tokens_most)));
    return tokens;
}

// Returns: how many of the first `tokens` a pass runs in addition to the known token of each of
// `sequences` sequences, so that most tokens a second are expected. 0 while the cost is unknown.
std::size_t count_where_fastest(std::span<const draft_token> tokens, int sequences,
                                const step_cost& cost) {
    const double alone = cost.rows_seconds(sequences);
    if (alone <= 0) return 0;
    double expected = sequences, best = gain_least * sequences / alone;
    std::size_t chosen = 0;
    for (std::size_t count = 1; count <= tokens.size(); ++count) {
        expected += tokens[count - 1].chance;
        const double rate = expected / cost.rows_seconds(sequences + static_cast<int>(count));
        if (rate <= best) continue;
        best = rate;
        chosen = count;
    }
    return chosen;
}

}  // namespace

std::vector<int> plan_drafts(std::span<const draft_view> drafts, const step_cost& cost,
                             draft_rule rule) {
    std::vector<int> counts(drafts.size());
    const std::vector<draft_token> tokens = find_surest(drafts);
    std::size_t chosen = 0;
    if (rule == draft_rule::always) chosen = tokens.size();
    if (rule == draft_rule::where_faster)
        chosen = count_where_fastest(tokens, static_cast<int>(drafts.size()), cost);
    for (std::size_t i = 0; i < chosen; ++i) ++counts[tokens[i].draft];
    return counts;
}

// The band of a match length: 3 tokens, 4 to 7, 8 to 15, 16 to 31, and more.
std::size_t draft_trust::band_of(std::size_t alike) noexcept {
    const auto width = static_cast<std::size_t>(std::bit_width(alike));
    return std::min(width - std::min(width, band_first), at_first.size() - 1);
}

void draft_trust::learn(std::size_t alike, int run, int taken) noexcept {
    double& chance = chances_[band_of(alike)];
    for (int i = 0; i < taken; ++i) chance += newest_run_share * (1 - chance);
    if (taken < run) chance -= newest_run_share * chance;
}

void draft_trust::forget(std::size_t alike) noexcept {
    const std::size_t band = band_of(alike);
    chances_[band] += forgotten_share * (at_first[band] - chances_[band]);
}

}  // namespace semantic::engine
