// SPDX-License-Identifier: Apache-2.0
#include "server/models/time_slices.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <vector>

namespace semantic::server {
namespace {

using clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

const clock::time_point start = clock::time_point() + std::chrono::hours(1);
const slice_rules rules{milliseconds(1000), milliseconds(100), milliseconds(0)};

slice_decision decide(int now_ms, std::optional<int> idle_since_ms,
                      const std::vector<waiting_model>& waiting, const slice_rules& by = rules) {
    slice_state state{start + milliseconds(now_ms), start, std::nullopt, waiting};
    if (idle_since_ms) state.idle_since = start + milliseconds(*idle_since_ms);
    return decide_slice(state, by);
}

waiting_model waits(std::size_t model, int since_ms) {
    return {model, start + milliseconds(since_ms)};
}

TEST(time_slices, a_model_that_nobody_waits_beside_goes_on) {
    const slice_decision decision = decide(1'000'000, 0, {});
    EXPECT_TRUE(decision.may_begin);
    EXPECT_FALSE(decision.next || decision.unloads);
}

TEST(time_slices, a_turn_ends_when_another_model_has_waited_for_one_and_not_before) {
    EXPECT_TRUE(decide(1499, std::nullopt, {waits(1, 500)}).may_begin);
    EXPECT_FALSE(decide(1499, std::nullopt, {waits(1, 500)}).next);
    EXPECT_FALSE(decide(1500, std::nullopt, {waits(1, 500)}).may_begin);
    EXPECT_EQ(decide(1500, std::nullopt, {waits(1, 500)}).next, 1u);
}

TEST(time_slices, a_model_has_its_turn_however_long_others_have_waited_when_it_comes) {
    EXPECT_TRUE(decide(999, std::nullopt, {waits(1, -90'000)}).may_begin);
    EXPECT_FALSE(decide(1000, std::nullopt, {waits(1, -90'000)}).may_begin);
}

TEST(time_slices, a_model_without_requests_keeps_its_turn_for_as_long_as_a_change_takes) {
    EXPECT_FALSE(decide(299, 200, {waits(1, 0)}).next);
    EXPECT_EQ(decide(300, 200, {waits(1, 0)}).next, 1u);
    EXPECT_TRUE(decide(300, 200, {waits(1, 0)}).may_begin) << "until the change begins";
    EXPECT_FALSE(decide(99, -5000, {waits(1, 0)}).next) << "nor when it has just come";
}

TEST(time_slices, the_oldest_request_is_served_first) {
    EXPECT_EQ(decide(5000, 0, {waits(3, 20), waits(2, 10), waits(1, 30)}).next, 2u);
}

TEST(time_slices, a_model_is_unloaded_when_it_was_idle_for_long_enough) {
    slice_rules by = rules;
    by.idle_max = milliseconds(5000);
    EXPECT_FALSE(decide(5999, 1000, {}, by).unloads);
    EXPECT_TRUE(decide(6000, 1000, {}, by).unloads);
    EXPECT_FALSE(decide(4999, -90'000, {}, by).unloads) << "it has only just come";
    EXPECT_FALSE(decide(900'000, std::nullopt, {}, by).unloads);
    EXPECT_FALSE(decide(6000, 1000, {waits(1, 0)}, by).unloads);
}

/// A server with one place, on which every model always has requests.
class always_busy {
  public:
    explicit always_busy(std::size_t models) : since_(models, 0) {}

    /// Returns: how long a model has waited at most, in ms.
    int longest_wait(int until_ms, int change_ms, int answer_ms) {
        int longest = 0;
        int ready = 0;
        for (int now = 0; now < until_ms; ++now) {
            std::vector<waiting_model> waiting;
            for (std::size_t i = 0; i < since_.size(); ++i)
                if (i != loaded_) waiting.push_back(waits(i, since_[i]));
            const slice_state state{start + milliseconds(now), start + milliseconds(ready),
                                    std::nullopt, waiting};
            const slice_decision decision = decide_slice(state, rules);
            if (!decision.next) continue;
            since_[loaded_] = now;  // the next request for it, which may not begin any more
            now += answer_ms + change_ms;
            loaded_ = *decision.next;
            longest = std::max(longest, now - since_[loaded_]);
            ready = now;
        }
        return longest;
    }

  private:
    std::size_t loaded_ = 0;
    std::vector<int> since_;
};

TEST(time_slices, no_model_waits_longer_than_for_every_other_ones_turn_and_all_changes) {
    constexpr int change = 300;
    constexpr int answer = 700;
    for (int models : {2, 3, 7}) {
        always_busy server(static_cast<std::size_t>(models));
        const int bound = (models - 1) * 1000 + models * (answer + change);
        EXPECT_LE(server.longest_wait(200'000, change, answer), bound) << models;
    }
}

}  // namespace
}  // namespace semantic::server
