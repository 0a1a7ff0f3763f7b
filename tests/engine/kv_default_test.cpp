#include <gtest/gtest.h>

#include "engine/engine.hpp"
#include "tests/support/latent_model.hpp"

namespace semantic::engine {
namespace {

struct started {
    model_info info;
    std::vector<std::string> warnings;
};

started start(const std::string& model, int kv_bits) {
    const tests::golden_byte_model folder(model);
    tests::temp_dir dir;
    started out;
    engine_options options;
    options.model_directory = folder.path();
    options.cache_directory = dir.path();
    options.cache_budget_bytes = std::size_t{16} << 20;
    options.compute_threads = 1;
    options.kv_bits = kv_bits;
    options.on_warning = [&](std::string what) { out.warnings.push_back(std::move(what)); };
    auto loaded = load_engine(options, {});
    if (!loaded) throw std::runtime_error(loaded.error().what);
    out.info = (*loaded)->info();
    return out;
}

TEST(kv_default, keys_with_a_bias_take_8_bits_and_say_why) {
    const started qwen = start("qwen25", 0);
    EXPECT_EQ(qwen.info.kv_bits, 8);
    EXPECT_EQ(qwen.info.kv_bits_reason, "its keys have a bias");
    EXPECT_TRUE(qwen.warnings.empty());
}

TEST(kv_default, chosen_bits_are_obeyed_and_too_few_of_them_are_warned_of) {
    const started four = start("qwen25", 4);
    EXPECT_EQ(four.info.kv_bits, 4);
    EXPECT_EQ(four.info.kv_bits_reason, "");
    ASSERT_EQ(four.warnings.size(), 1u);
    EXPECT_NE(four.warnings[0].find("kv-bits 4 is less than this model's default, 8 (its keys "
                                    "have a bias)"),
              std::string::npos)
        << four.warnings[0];
    for (const int enough : {8, 16}) {
        const started chosen = start("qwen25", enough);
        EXPECT_EQ(chosen.info.kv_bits, enough);
        EXPECT_EQ(chosen.info.kv_bits_reason, "");
        EXPECT_TRUE(chosen.warnings.empty());
    }
}

TEST(kv_default, keys_without_a_bias_take_4_bits) {
    for (const int bits : {0, 4}) {
        const started llama = start("smollm2", bits);
        EXPECT_EQ(llama.info.kv_bits, 4);
        EXPECT_EQ(llama.info.kv_bits_reason, "");
        EXPECT_TRUE(llama.warnings.empty());
    }
}

}  // namespace
}  // namespace semantic::engine
