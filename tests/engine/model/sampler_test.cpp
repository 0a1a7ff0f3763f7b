#include "engine/model/sampler.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>
#include <vector>

namespace semantic::engine {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan_logit = std::numeric_limits<float>::quiet_NaN();

sampling_rules params(float temperature, int top_k = 0, float top_p = 1.0f) {
    sampling_rules p;
    p.temperature = temperature;
    p.top_k = top_k;
    p.top_p = top_p;
    return p;
}

std::vector<int> histogram(sampler& s, const std::vector<float>& logits, int draws) {
    std::vector<int> counts(logits.size());
    for (int i = 0; i < draws; ++i) {
        ++counts[static_cast<std::size_t>(s.sample(logits, static_cast<std::uint64_t>(i)))];
    }
    return counts;
}

std::set<token_id> support(sampler& s, const std::vector<float>& logits, int draws = 4000) {
    std::set<token_id> seen;
    for (int i = 0; i < draws; ++i) seen.insert(s.sample(logits, static_cast<std::uint64_t>(i)));
    return seen;
}

TEST(sampler, zero_temperature_takes_the_largest_logit_and_the_lowest_id_on_a_tie) {
    sampler s(params(0.0f), 1, 5);
    EXPECT_EQ(s.sample(std::vector<float>{0, 3, 1, 3, -1}, 0), 1);
    EXPECT_EQ(s.sample(std::vector<float>{-4, -3, -2, -9, -2}, 7), 2);
}

TEST(sampler, not_a_number_is_never_drawn) {
    const std::vector<float> logits{nan_logit, 1, nan_logit, 2, nan_logit};
    sampler greedy(params(0.0f), 1, 5);
    EXPECT_EQ(greedy.sample(logits, 0), 3);
    sampler warm(params(1.0f), 1, 5);
    EXPECT_EQ(support(warm, logits), (std::set<token_id>{1, 3}));
}

TEST(sampler, without_any_finite_logit_the_answer_is_token_zero) {
    const std::vector<float> hopeless{nan_logit, -infinity, nan_logit};
    for (float temperature : {0.0f, 1.0f}) {
        sampler s(params(temperature, 0, 0.5f), 1, 3);
        EXPECT_EQ(s.sample(hopeless, 3), 0);
    }
}

TEST(sampler, an_infinite_logit_wins_at_every_temperature) {
    sampler s(params(2.0f), 9, 4);
    EXPECT_EQ(support(s, {0, 1, infinity, 5}, 50), (std::set<token_id>{2}));
}

// Goal: the draws follow softmax(logits / temperature). Method: Pearson's chi-square over 5 cells;
// with 4 degrees of freedom a correct sampler exceeds 23.5 once in 10,000 seeds, and the seed is
// fixed. A temperature wrong by 20 % gives about 300.
TEST(sampler, draws_follow_the_tempered_softmax) {
    const std::vector<float> logits{1.0f, 0.0f, 2.0f, -1.0f, 0.5f};
    constexpr int draws = 40000;
    for (const float temperature : {0.7f, 1.0f, 2.0f}) {
        std::vector<double> expected;
        double total = 0.0;
        for (float x : logits) total += std::exp(static_cast<double>(x / temperature));
        for (float x : logits) {
            expected.push_back(draws * std::exp(static_cast<double>(x / temperature)) / total);
        }
        sampler s(params(temperature), 42, 5);
        const std::vector<int> counts = histogram(s, logits, draws);
        double chi_square = 0.0;
        for (std::size_t i = 0; i < counts.size(); ++i) {
            chi_square += std::pow(counts[i] - expected[i], 2) / expected[i];
        }
        EXPECT_LT(chi_square, 23.5) << "temperature " << temperature;
    }
}

TEST(sampler, top_k_keeps_the_k_largest_and_the_lower_ids_among_equals) {
    const std::vector<float> logits{1, 2, 1, 1, 3};
    sampler two(params(5.0f, 2), 3, 5), three(params(5.0f, 3), 3, 5), one(params(5.0f, 1), 3, 5);
    EXPECT_EQ(support(one, logits, 50), (std::set<token_id>{4}));
    EXPECT_EQ(support(two, logits), (std::set<token_id>{1, 4}));
    EXPECT_EQ(support(three, logits), (std::set<token_id>{0, 1, 4}));
}

TEST(sampler, top_k_beyond_the_vocabulary_keeps_everything) {
    sampler s(params(5.0f, 6), 3, 5);
    EXPECT_EQ(support(s, {1, 2, 1, 1, 3}).size(), 5u);
}

// Probabilities 0.5, 0.25, 0.125, 0.125: exact in binary, so the edges of top_p are exact too.
TEST(sampler, top_p_keeps_the_smallest_set_that_reaches_the_mass) {
    const float ln2 = std::log(2.0f);
    const std::vector<float> logits{-3 * ln2, -1 * ln2, -3 * ln2, -2 * ln2};
    const auto kept = [&](float top_p) {
        sampler s(params(1.0f, 0, top_p), 5, 4);
        return support(s, logits);
    };
    EXPECT_EQ(kept(1e-6f), (std::set<token_id>{1}));
    EXPECT_EQ(kept(0.49f), (std::set<token_id>{1}));
    EXPECT_EQ(kept(0.51f), (std::set<token_id>{1, 3}));
    EXPECT_EQ(kept(0.74f), (std::set<token_id>{1, 3}));
    EXPECT_EQ(kept(0.80f), (std::set<token_id>{0, 1, 3}));
    EXPECT_EQ(kept(0.99f), (std::set<token_id>{0, 1, 2, 3}));
}

TEST(sampler, top_p_counts_the_mass_that_top_k_left) {
    const float ln2 = std::log(2.0f);
    // Of {0.5, 0.25, 0.125, 0.125} top_k 2 leaves {2/3, 1/3}: 0.6 is reached by the first alone,
    // 0.7 is not.
    const std::vector<float> logits{-1 * ln2, -2 * ln2, -3 * ln2, -3 * ln2};
    sampler low(params(1.0f, 2, 0.6f), 5, 4), high(params(1.0f, 2, 0.7f), 5, 4);
    EXPECT_EQ(support(low, logits), (std::set<token_id>{0}));
    EXPECT_EQ(support(high, logits), (std::set<token_id>{0, 1}));
}

TEST(sampler, a_draw_depends_on_seed_and_position_alone) {
    std::vector<float> logits(1000);
    for (std::size_t i = 0; i < logits.size(); ++i) {
        logits[i] = std::sin(static_cast<float>(i) * 1.7f);
    }
    sampler a(params(1.0f, 0, 0.9f), 77, 1000), b(params(1.0f, 0, 0.9f), 77, 1000);
    std::vector<token_id> forward, backward;
    for (std::uint64_t p = 0; p < 100; ++p) forward.push_back(a.sample(logits, p));
    for (std::uint64_t p = 100; p-- > 0;) backward.insert(backward.begin(), b.sample(logits, p));
    EXPECT_EQ(forward, backward);

    sampler other(params(1.0f, 0, 0.9f), 78, 1000);
    int equal = 0, shifted = 0;
    for (std::uint64_t p = 0; p + 1 < 100; ++p) {
        equal += other.sample(logits, p) == forward[p];
        shifted += other.sample(logits, p) == forward[p + 1];
    }
    EXPECT_LT(equal, 10);
    EXPECT_LT(shifted, 10);
}

}  // namespace
}  // namespace semantic::engine
