// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "engine/engine.hpp"
#include "storage/pool/kv_recipe.hpp"
#include "tests/support/latent_model.hpp"

namespace semantic::engine {
namespace {

struct started {
    model_info info;
    std::vector<std::string> warnings;
};

started start(const std::string& model, const std::string& recipe, const std::string& directory) {
    const tests::golden_byte_model folder(model);
    started out;
    engine_options options;
    options.model_directory = folder.path();
    options.cache_directory = directory;
    options.cache_budget_bytes = std::size_t{16} << 20;
    options.compute_threads = 1;
    options.kv_recipe = recipe;
    options.on_warning = [&](std::string message) { out.warnings.push_back(std::move(message)); };
    auto loaded = load_engine(options, {});
    if (!loaded) throw std::runtime_error(loaded.error().what);
    out.info = (*loaded)->info();
    return out;
}

/// Those that are about K and V; a template may have its own.
std::vector<std::string> of_kv(std::vector<std::string> warnings) {
    std::erase_if(warnings, [](const std::string& each) { return !each.starts_with("kv-"); });
    return warnings;
}

TEST(kv_default, a_recipe_that_nobody_names_is_measured_and_says_what) {
    const tests::temp_dir dir;
    const started first = start("smollm2", "auto", dir.path());
    EXPECT_TRUE(storage::find_kv_recipe(first.info.kv_recipe)) << first.info.kv_recipe;
    EXPECT_NE(first.info.kv_recipe_reason.find("same top"), std::string::npos)
        << first.info.kv_recipe_reason;
    EXPECT_TRUE(of_kv(first.warnings).empty());
    EXPECT_TRUE(std::filesystem::exists(dir.path() + "/calibration"));
    const started again = start("smollm2", "auto", dir.path());
    EXPECT_EQ(again.info.kv_recipe, first.info.kv_recipe);
    EXPECT_EQ(again.info.kv_recipe_reason, first.info.kv_recipe_reason);
}

TEST(kv_default, a_recipe_that_is_named_is_obeyed_and_too_few_bits_for_keys_are_warned_of) {
    const tests::temp_dir dir;
    const started four = start("qwen25", "4", dir.path());
    EXPECT_EQ(four.info.kv_recipe, "k4v4");
    EXPECT_EQ(four.info.kv_bits, 4);
    EXPECT_EQ(four.info.kv_recipe_reason, "");
    const std::vector<std::string> warnings = of_kv(four.warnings);
    ASSERT_EQ(warnings.size(), 1u);
    EXPECT_EQ(warnings[0],
              "kv-recipe k4v4 keeps 4 bits of a key, and its keys have a bias: what the model "
              "answers may be noise");
    for (const std::string enough : {"k8v8", "k8m-v5r", "16"}) {
        const tests::temp_dir other;
        const started chosen = start("qwen25", enough, other.path());
        EXPECT_EQ(storage::find_kv_recipe(chosen.info.kv_recipe), storage::find_kv_recipe(enough));
        EXPECT_EQ(chosen.info.kv_recipe_reason, "");
        EXPECT_TRUE(of_kv(chosen.warnings).empty());
    }
}

TEST(kv_default, an_unknown_recipe_is_refused_with_those_that_there_are) {
    const tests::temp_dir dir;
    try {
        start("smollm2", "k3v3", dir.path());
        FAIL() << "it started";
    } catch (const std::runtime_error& error) {
        EXPECT_EQ(std::string(error.what()),
                  "kv-recipe: 'k3v3' is not auto, " + storage::kv_recipe_names());
    }
}

}  // namespace
}  // namespace semantic::engine
