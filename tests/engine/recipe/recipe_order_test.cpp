// SPDX-License-Identifier: Apache-2.0
#include "engine/recipe/recipe_order.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace semantic::engine {
namespace {

/// Candidates and what is known of them, with the bytes that a head of 64 takes.
struct table {
    table() {
        for (const storage::named_kv_recipe& each : storage::kv_recipes()) {
            if (!each.is_candidate || each.name == "k4v4") continue;
            candidates.push_back(each);
            const int bits = each.recipe.k.bits + each.recipe.v.bits;
            scores.push_back(
                {std::string(each.name), static_cast<float>(bits == 32 ? 36 : bits + 1) / 36.0f});
        }
        scores.back().positions = positions;
    }
    void measured(const std::string& name, float divergence, float same_top) {
        recipe_score& score = *std::ranges::find(scores, name, &recipe_score::name);
        score.divergence_mean = divergence;
        score.same_top_share = same_top;
        score.positions = positions;
    }
    void is_out(const std::string& name) { measured(name, 0.02f, 0.9f); }
    std::string next() const {
        std::string names;
        for (const std::size_t i : next_batch(candidates, scores, {}))
            names += (names.empty() ? "" : " ") + scores[i].name;
        return names;
    }
    static constexpr int positions = 400;
    std::vector<storage::named_kv_recipe> candidates;
    std::vector<recipe_score> scores;
};

TEST(recipe_order, sizes_are_measured_from_the_smallest_until_one_is_within_the_bound) {
    table recipes;
    EXPECT_EQ(recipes.next(), "k5s-v4r-w16 k6s-v4r-w16");
    for (const char* each : {"k5s-v4r-w16", "k6s-v4r-w16"}) recipes.is_out(each);
    EXPECT_EQ(recipes.next(), "k6s-v5r-w16 k7s-v5r-w16");
    for (const char* each : {"k6s-v5r-w16", "k7s-v5r-w16"}) recipes.is_out(each);
    EXPECT_EQ(recipes.next(), "k8m-v5r k8v8");
    for (const char* each : {"k8m-v5r", "k8v8"}) recipes.is_out(each);
    EXPECT_EQ(recipes.next(), "");
}

TEST(recipe_order, nothing_larger_than_what_is_within_the_bound_is_measured) {
    table recipes;
    recipes.is_out("k5s-v4r-w16");
    recipes.measured("k6s-v4r-w16", 0.0025f, 0.98f);
    EXPECT_EQ(recipes.next(), "");
    EXPECT_EQ(choose_recipe(recipes.scores, {}).name, "k6s-v4r-w16");
}

TEST(recipe_order, of_one_size_the_one_that_diverges_less_is_taken) {
    const recipe_score scores[] = {{"k5s-v5r-w16", 0.34f, 0.0027f, 0.974f, 400},
                                   {"k6s-v4r-w16", 0.34f, 0.0024f, 0.974f, 400},
                                   {"k7s-v5r-w16", 0.41f, 0.0010f, 0.990f, 400}};
    EXPECT_EQ(choose_recipe(scores, {}).name, "k6s-v4r-w16");
}

TEST(recipe_order, a_coarser_form_is_measured_where_the_finer_is_within_the_bound) {
    table recipes;
    recipes.measured("k6s-v4r-w16", 0.0028f, 0.985f);  // its keys alone would be coarser
    EXPECT_EQ(recipes.next(), "k5s-v4r-w16");
    recipes.measured("k6s-v4r-w16", 0.0029f, 0.985f);
    EXPECT_EQ(recipes.next(), "k6s-v5r-w16 k7s-v5r-w16");
}

TEST(recipe_order, keys_of_4_bits_are_measured_after_those_of_5_where_they_leave_room) {
    table recipes;
    recipes.measured("k5s-v4r-w16", 0.00114f, 0.99f);
    EXPECT_EQ(recipes.next(), "k4s-v4r-w16");
    recipes.measured("k5s-v4r-w16", 0.00115f, 0.99f);  // k4s-v4r-w16 would be 0.00288
    EXPECT_EQ(recipes.next(), "");
    EXPECT_EQ(choose_recipe(recipes.scores, {}).name, "k5s-v4r-w16");
}

TEST(recipe_order, keys_of_4_bits_do_not_wait_for_those_of_5_that_are_no_candidates) {
    table recipes;
    const auto at = std::ranges::find(recipes.scores, "k5s-v4r-w16", &recipe_score::name);
    recipes.candidates.erase(recipes.candidates.begin() + (at - recipes.scores.begin()));
    recipes.scores.erase(at);
    EXPECT_EQ(recipes.next(), "k4s-v4r-w16 k6s-v4r-w16");
}

TEST(recipe_order, a_bit_less_of_keys_and_values_diverges_twice_as_much) {
    table recipes;
    for (const char* each : {"k4s-v4r-w16", "k5s-v4r-w16"}) recipes.is_out(each);
    recipes.measured("k7s-v5r-w16", 0.0015f, 0.99f);
    EXPECT_EQ(recipes.next(), "k6s-v5r-w16");  // k6s-v4r-w16 would be 0.0030, beyond 0.0029
    recipes = {};
    for (const char* each : {"k4s-v4r-w16", "k5s-v4r-w16"}) recipes.is_out(each);
    recipes.measured("k7s-v5r-w16", 0.0014f, 0.99f);
    EXPECT_EQ(recipes.next(), "k6s-v4r-w16 k6s-v5r-w16");
}

TEST(recipe_order, finer_is_the_same_kind_with_no_fewer_bits) {
    const auto is = [](const char* a, const char* b) {
        return is_finer(*storage::find_kv_recipe(a), *storage::find_kv_recipe(b));
    };
    const auto centred = [](int key_bits, int value_bits) {
        return storage::kv_recipe({key_bits, true, true}, {value_bits, true, false});
    };
    EXPECT_TRUE(is_finer(centred(5, 4), centred(4, 4)));
    EXPECT_FALSE(is_finer(centred(7, 5), centred(8, 4)));
    EXPECT_TRUE(is("k7s-v5r", "k6s-v5r"));
    EXPECT_FALSE(is("k6s-v5r", "k6s-v5r"));
    EXPECT_FALSE(is("k8m-v5r", "k4v4"));  // rotated
    EXPECT_TRUE(is("k6s-v5r-w16", "k5s-v4r-w16"));
    EXPECT_FALSE(is("k6s-v5r", "k5s-v4r-w16"));  // another tail
    EXPECT_FALSE(is("k16v16", "k8m-v5r"));
}

}  // namespace
}  // namespace semantic::engine
