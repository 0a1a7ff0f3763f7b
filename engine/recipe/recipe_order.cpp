// SPDX-License-Identifier: Apache-2.0
#include "engine/recipe/recipe_order.hpp"

#include <algorithm>

namespace semantic::engine {

namespace {

/// Candidates of the smallest size are a batch of their own if they are at least batch_worth;
/// otherwise those of the next size are added, because each batch reads the reference again.
constexpr std::size_t batch_worth = 3;
constexpr std::size_t sizes_of_batch = 2;

/// Keys of so many bits are measured only after keys of one bit more, whose score predicts theirs.
constexpr int last_key_bits = 4;

/// How many times as much the recipe `coarser` diverges as `finer`, at least. Measured on published
/// models: with one bit less of both K and V 2.0 to 3.5 times; keys of 4 bits instead of 5: 2.0 to
/// 4.7 times, median 2.7 (perf/results.md). For other changes of one of K and V it is not known.
double growth(const storage::kv_recipe& finer, const storage::kv_recipe& coarser) {
    if (finer.k.bits > coarser.k.bits && coarser.k.bits == last_key_bits) return 2.5;
    return finer.k.bits > coarser.k.bits && finer.v.bits > coarser.v.bits ? 2.0 : 1.0;
}

/// Whether the recipe `coarser` need not be measured, because the score of the recipe `finer` says
/// that it would exceed the bound.
bool settles(const recipe_score& score, const storage::kv_recipe& finer,
             const storage::kv_recipe& coarser, const recipe_bound& bound) {
    return growth(finer, coarser) * static_cast<double>(score.divergence_mean) >
           bound.divergence_limit();
}

/// Whether the recipe `own` is measured only after `other`, see last_key_bits.
bool waits_for(const storage::kv_recipe& own, const storage::kv_recipe& other) {
    return own.k.bits == last_key_bits && other.k.bits == last_key_bits + 1 &&
           other.v.bits == own.v.bits && is_finer(other, own);
}

/// Whether a candidate has to be measured in the next batch or a later one, by the scores so far.
bool is_open(std::size_t candidate, std::span<const storage::named_kv_recipe> candidates,
             std::span<const recipe_score> scores, const recipe_bound& bound) {
    const recipe_score& own = scores[candidate];
    if (own.is_measured()) return false;
    for (std::size_t other = 0; other < scores.size(); ++other) {
        const storage::kv_recipe &finer = candidates[other].recipe,
                                 &coarser = candidates[candidate].recipe;
        if (!scores[other].is_measured()) {
            if (waits_for(coarser, finer)) return false;
            continue;
        }
        const bool holds = bound.holds(scores[other]);
        if (holds && scores[other].bytes_share <= own.bytes_share) return false;
        if (is_finer(finer, coarser) && settles(scores[other], finer, coarser, bound)) return false;
    }
    return true;
}

}  // namespace

bool is_finer(const storage::kv_recipe& a, const storage::kv_recipe& b) noexcept {
    const auto at_least = [](const storage::kv_form& one, const storage::kv_form& other) {
        return one.bits >= other.bits && one.rotated == other.rotated &&
               one.centred == other.centred && one.shaped == other.shaped;
    };
    return at_least(a.k, b.k) && at_least(a.v, b.v) && a.wide_tail == b.wide_tail && !(a == b);
}

std::vector<std::size_t> next_batch(std::span<const storage::named_kv_recipe> candidates,
                                    std::span<const recipe_score> scores,
                                    const recipe_bound& bound) {
    std::vector<std::vector<std::size_t>> sizes;  // open candidates of the same bytes
    std::vector<std::size_t> open;
    for (std::size_t i = 0; i < scores.size(); ++i)
        if (is_open(i, candidates, scores, bound)) open.push_back(i);
    const auto bytes = [scores](std::size_t i) { return scores[i].bytes_share; };
    std::ranges::stable_sort(open, {}, bytes);
    for (const std::size_t i : open) {
        if (sizes.empty() || bytes(sizes.back().front()) != bytes(i)) sizes.emplace_back();
        sizes.back().push_back(i);
    }
    if (sizes.empty()) return {};
    std::vector<std::size_t> batch = sizes.front();
    if (batch.size() < batch_worth)
        for (std::size_t size = 1; size < std::min(sizes.size(), sizes_of_batch); ++size)
            batch.insert(batch.end(), sizes[size].begin(), sizes[size].end());
    std::ranges::sort(batch);
    return batch;
}

}  // namespace semantic::engine
