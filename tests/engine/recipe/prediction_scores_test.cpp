// SPDX-License-Identifier: Apache-2.0
#include "engine/recipe/prediction_scores.hpp"

#include <gtest/gtest.h>

namespace semantic::engine {
namespace {

score_sum sum_of(std::initializer_list<double> divergences) {
    score_sum sum;
    for (const double each : divergences) sum.add({1.0, 1.0, each, true});
    return sum;
}

TEST(score_sum, tells_the_mean_divergence_and_its_standard_error) {
    const score_sum sum = sum_of({0.1, 0.2, 0.3, 0.4});
    EXPECT_NEAR(sum.divergence_mean(), 0.25, 1e-12);
    EXPECT_NEAR(sum.divergence_error(), 0.0645497, 1e-6);  // sqrt(0.0125 / 3)
    EXPECT_EQ(sum_of({0.25, 0.25, 0.25}).divergence_error(), 0.0) << "all alike";
}

TEST(score_sum, of_one_position_or_none_has_no_error) {
    EXPECT_EQ(sum_of({}).divergence_error(), 0.0);
    EXPECT_EQ(sum_of({0.5}).divergence_error(), 0.0);
}

}  // namespace
}  // namespace semantic::engine
