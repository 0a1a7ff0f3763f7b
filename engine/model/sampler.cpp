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

float or_minus_infinity(float logit) {
    return std::isnan(logit) ? -std::numeric_limits<float>::infinity() : logit;
}

/// Larger logits first, lower ids first among equals: a total order, so the kept set never depends
/// on the sort.
bool ahead(const std::pair<float, token_id>& a, const std::pair<float, token_id>& b) {
    return a.first > b.first || (a.first == b.first && a.second < b.second);
}

token_id largest(std::span<const float> logits) {
    token_id best = 0;
    float best_logit = -std::numeric_limits<float>::infinity();
    for (std::size_t i = 0; i < logits.size(); ++i) {
        if (logits[i] > best_logit) {  // false for NaN
            best_logit = logits[i];
            best = static_cast<token_id>(i);
        }
    }
    return best;
}

}  // namespace

sampler::sampler(const sampling_rules& rules, std::uint64_t seed, int vocabulary)
    : rules_(rules), seed_(seed) {
    candidates_.reserve(static_cast<std::size_t>(vocabulary));
}

token_id sampler::sample(std::span<const float> logits, std::uint64_t position) {
    const token_id best = largest(logits);
    const float top = logits.empty() ? -std::numeric_limits<float>::infinity()
                                     : or_minus_infinity(logits[static_cast<std::size_t>(best)]);
    // An infinite largest logit leaves nothing to draw between; and with none above -inf there is
    // only token 0.
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
        // A heap, because the nucleus is a handful of tokens while the vocabulary is 100,000 and
        // more.
        const auto behind = [](const auto& a, const auto& b) { return ahead(b, a); };
        const double wanted = total * static_cast<double>(rules_.top_p);
        std::make_heap(candidates_.begin(), candidates_.end(), behind);
        auto kept = candidates_.end();
        total = 0.0;
        while (kept == candidates_.end() || (total < wanted && kept != candidates_.begin())) {
            std::pop_heap(candidates_.begin(), kept, behind);
            total += weight(*--kept);
        }
        std::reverse(kept, candidates_.end());
        candidates_.erase(candidates_.begin(), kept);
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
