// SPDX-License-Identifier: Apache-2.0
// Recipes of K and V are compared on models of every shape: some multiply before their first layer,
// in some the rows that nobody asks for end before the last, in some layers differ in their heads.

#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "engine/model/compute_arena.hpp"
#include "engine/recipe/recipe_comparison.hpp"

namespace semantic::engine {
namespace {

template <class T>
T taken(storage::result<T> from) {
    if (!from) throw std::runtime_error(from.error().what);
    return std::move(*from);
}

class compared_models : public testing::TestWithParam<const char*> {};

TEST_P(compared_models, replay_the_reference_and_diverge_with_coarser_k_and_v) {
    const std::string folder =
        std::string(SEMANTIC_SOURCE_DIR "/tests/golden/models/") + GetParam();
    const model_config config = taken(model_config::load(folder));
    // Three pieces of 64 tokens: each begins after the one before was replayed.
    std::vector<storage::token_id> text;
    for (int i = 0; i < 180; ++i) text.push_back((i * 37 + 11) % config.vocabulary);
    const std::vector<storage::named_kv_recipe> recipes{
        {"k16v16", *storage::find_kv_recipe("k16v16")}, {"k8v8", *storage::find_kv_recipe("k8v8")}};
    std::vector<recipe_score> scores;
    compute_arena arena(2);
    arena.run([&] {
        const std::unique_ptr<transformer> model =
            taken(transformer::load(folder, config, make_kv_layout(config, 16, 256),
                                    *find_kernels("auto"), {1, 1}, weight_form::native, {}));
        recipe_comparison comparison(*model, config, {}, text, {1e-9f, 0.0f});
        scores = comparison.run(recipes, [](double) {});
    });
    ASSERT_EQ(scores.size(), recipes.size());
    EXPECT_EQ(scores[0].divergence_mean, 0.0f);
    EXPECT_EQ(scores[0].same_top_share, 1.0f);
    EXPECT_GT(scores[1].positions, 0);
    EXPECT_GT(scores[1].divergence_mean, 0.0f);
    EXPECT_LT(scores[1].divergence_mean, 0.1f);
}

INSTANTIATE_TEST_SUITE_P(golden, compared_models,
                         testing::Values("gemma4-published", "gemma4-e-published",
                                         "gemma4moe-published", "olmo3", "phi3", "granite"),
                         [](const auto& each) {
                             std::string name = each.param;
                             for (char& c : name) c = c == '-' ? '_' : c;
                             return name;
                         });

}  // namespace
}  // namespace semantic::engine
