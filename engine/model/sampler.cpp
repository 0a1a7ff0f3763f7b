// SPDX-License-Identifier: Apache-2.0
#include "engine/model/sampler.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace semantic::engine {

namespace {

/// Steele, Lea and Flood's splitmix64: a bijection whose outputs for consecutive counters look
/// independent. Source: https://doi.org/10.1145/2660193.2660195
std::uint64_t splitmix64(std::uint64_t x) {
    x += 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

/// Uniform in [0, 1), a function of (seed, position) alone. The seed is mixed first so that seed s
/// at position p + 1 and seed s + 1 at position p have nothing in common.
double uniform(std::uint64_t seed, std::uint64_t position) {
    const std::uint64_t bits = splitmix64(splitmix64(seed) ^ position);
    return static_cast<double>(bits >> 11) * 0x1.0p-53;
}

/// The logit, or -infinity for NaN.
float or_minus_infinity(float logit) {
    return std::isnan(logit) ? -std::numeric_limits<float>::infinity() : logit;
}

/// Larger logits first, lower ids first among equals: a total order, so the kept set never depends
/// on the sort.
bool ahead(const std::pair<float, token_id>& a, const std::pair<float, token_id>& b) {
    return a.first > b.first || (a.first == b.first && a.second < b.second);
}

/// The index of the largest logit, the first of several; NaN counts as -infinity. First the maximum
/// of each block of 1,024 is found, in lanes that the compiler vectorises; then only the best block
/// is searched for the index. All other threads wait for this, so it has to be fast.
token_id largest(std::span<const float> logits) {
    constexpr std::size_t lanes = 32, block = 32 * lanes;
    constexpr float none = -std::numeric_limits<float>::infinity();
    float best = none;
    std::size_t at = 0;
    for (std::size_t begin = 0; begin < logits.size(); begin += block) {
        const std::span<const float> part =
            logits.subspan(begin, std::min(block, logits.size() - begin));
        float highest[lanes];
        std::fill_n(highest, lanes, none);
        std::size_t i = 0;
        for (; i + lanes <= part.size(); i += lanes)
            for (std::size_t lane = 0; lane < lanes; ++lane)
                highest[lane] = part[i + lane] > highest[lane] ? part[i + lane] : highest[lane];
        float top = *std::max_element(highest, highest + lanes);
        for (; i < part.size(); ++i) top = part[i] > top ? part[i] : top;
        if (top > best) {
            best = top;
            at = begin;
        }
    }
    while (best != none && !(logits[at] == best)) ++at;
    return static_cast<token_id>(at);
}

/// Whether the rules have a penalty, which needs counts of tokens.
bool counts_tokens(const sampling_rules& rules) {
    return rules.repetition_penalty != 1.0f || rules.presence_penalty != 0.0f ||
           rules.frequency_penalty != 0.0f;
}

}  // namespace

token_history::token_history(std::span<const token_id> prompt) {
    for (token_id token : prompt) answered_.try_emplace(token, 0);
}

void adjust_logits(std::span<float> logits, const sampling_rules& rules,
                   const token_history& history) {
    const double repetition = static_cast<double>(rules.repetition_penalty);
    // Exact logits by token, so that a token with penalties and biases is rounded only once.
    std::unordered_map<token_id, double> exact;
    for (auto [token, count] : history.answered()) {
        if (token < 0 || static_cast<std::size_t>(token) >= logits.size()) continue;
        double logit = static_cast<double>(logits[static_cast<std::size_t>(token)]);
        logit = logit > 0 ? logit / repetition : logit * repetition;
        if (count > 0)
            logit -= static_cast<double>(rules.presence_penalty) +
                     static_cast<double>(rules.frequency_penalty) * count;
        exact[token] = logit;
    }
    for (const token_bias& bias : rules.biases) {
        if (bias.token < 0 || static_cast<std::size_t>(bias.token) >= logits.size()) continue;
        auto logit = static_cast<double>(logits[static_cast<std::size_t>(bias.token)]);
        exact.try_emplace(bias.token, logit).first->second += static_cast<double>(bias.bias);
    }
    for (auto [token, logit] : exact)
        logits[static_cast<std::size_t>(token)] = static_cast<float>(logit);
}

token_scores score_tokens(std::span<const float> logits, token_id chosen, int top) {
    const token_id best = largest(logits);
    const double highest =
        logits.empty() ? 0 : or_minus_infinity(logits[static_cast<std::size_t>(best)]);
    double total = 0.0;
    for (float logit : logits)
        if (!std::isnan(logit)) total += std::exp(static_cast<double>(logit) - highest);
    const auto score = [&](token_id token) {
        const double logit = or_minus_infinity(logits[static_cast<std::size_t>(token)]);
        // With an infinite highest logit the formula below has no value: the likeliest token counts
        // as certain.
        if (std::isinf(highest))
            return scored_token{
                token, token == best ? 0.0f : -std::numeric_limits<float>::infinity(), {}, {}};
        return scored_token{token, static_cast<float>(logit - highest - std::log(total)), {}, {}};
    };
    token_scores scores{score(chosen), {}};
    std::vector<std::pair<float, token_id>> order;
    const auto count = std::min(static_cast<std::size_t>(std::max(top, 0)), logits.size());
    if (count == 0) return scores;
    order.reserve(count + 1);
    for (std::size_t i = 0; i < logits.size(); ++i) {
        const std::pair next(or_minus_infinity(logits[i]), static_cast<token_id>(i));
        if (order.size() == count && !ahead(next, order.back())) continue;
        order.insert(std::ranges::upper_bound(order, next, ahead), next);
        if (order.size() > count) order.pop_back();
    }
    for (const auto& [logit, token] : order) scores.top.push_back(score(token));
    return scores;
}

std::uint64_t seed_of_choice(std::uint64_t seed, int choice) noexcept {
    return choice == 0 ? seed : splitmix64(seed ^ splitmix64(static_cast<std::uint64_t>(choice)));
}

sampler::sampler(const sampling_rules& rules, std::uint64_t seed, int vocabulary,
                 std::span<const token_id> prompt)
    : rules_(rules),
      seed_(seed),
      adjusts_(counts_tokens(rules) || !rules.biases.empty()),
      history_(rules.repetition_penalty != 1.0f ? prompt : std::span<const token_id>()) {
    candidates_.reserve(static_cast<std::size_t>(vocabulary));
}

void sampler::take(token_id token) {
    if (counts_tokens(rules_)) history_.add(token);
}

token_id sampler::sample(std::span<const float> logits, std::uint64_t position) {
    if (!adjusts_) return draw(logits, position);
    adjusted_.assign(logits.begin(), logits.end());
    adjust_logits(adjusted_, rules_, history_);
    return draw(adjusted_, position);
}

token_id sampler::draw(std::span<const float> logits, std::uint64_t position) {
    const token_id best = largest(logits);
    const float top = logits.empty() ? -std::numeric_limits<float>::infinity()
                                     : or_minus_infinity(logits[static_cast<std::size_t>(best)]);
    // With an infinite largest logit there is nothing to draw from; if all are -infinity `best` is
    // token 0.
    if (!(rules_.temperature > 0.0f) || rules_.top_k == 1 || std::isinf(top)) return best;

    // A token 40 temperatures below the best has less than 1e-17 of its mass: 53 random bits could
    // not draw it.
    const float floor = top - 40.0f * rules_.temperature;
    candidates_.clear();
    for (std::size_t i = 0; i < logits.size(); ++i) {
        if (logits[i] >= floor) candidates_.emplace_back(logits[i], static_cast<token_id>(i));
    }
    if (rules_.top_k > 0 && static_cast<std::size_t>(rules_.top_k) < candidates_.size()) {
        const auto cut = candidates_.begin() + rules_.top_k;
        std::nth_element(candidates_.begin(), cut - 1, candidates_.end(), ahead);
        candidates_.erase(cut, candidates_.end());
        std::sort(candidates_.begin(), candidates_.end(), ahead);
    }
    const auto weight = [&](const std::pair<float, token_id>& candidate) {
        return std::exp((static_cast<double>(candidate.first) - static_cast<double>(top)) /
                        static_cast<double>(rules_.temperature));
    };
    double total = 0.0;
    for (const auto& candidate : candidates_) total += weight(candidate);
    if (rules_.top_p < 1.0f) {
        // A heap and not a sort: the set is a few tokens of a vocabulary of 100,000 and more.
        const auto later = [](const auto& a, const auto& b) { return ahead(b, a); };
        const double wanted = total * static_cast<double>(rules_.top_p);
        std::make_heap(candidates_.begin(), candidates_.end(), later);
        auto kept = candidates_.end();
        total = 0.0;
        while (kept == candidates_.end() || (total < wanted && kept != candidates_.begin())) {
            std::pop_heap(candidates_.begin(), kept, later);
            total += weight(*--kept);
        }
        std::reverse(kept, candidates_.end());
        candidates_.erase(candidates_.begin(), kept);
    }

    if (rules_.min_p > 0.0f) {
        std::erase_if(candidates_, [&](const auto& candidate) {
            return weight(candidate) < static_cast<double>(rules_.min_p);
        });
        total = 0.0;
        for (const auto& candidate : candidates_) total += weight(candidate);
    }

    const double target = uniform(seed_, position) * total;
    double mass = 0.0;
    for (const auto& candidate : candidates_) {
        mass += weight(candidate);
        if (target < mass) return candidate.second;
    }
    return candidates_.back().second;  // rounding left the target on the total itself
}

}  // namespace semantic::engine
