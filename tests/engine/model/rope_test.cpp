// SPDX-License-Identifier: Apache-2.0
#include "engine/model/heads/rope.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "tests/engine/model/weights/golden_gguf.hpp"

namespace semantic::engine {
namespace {

rope_parameters llama3() {
    rope_parameters rope;
    rope.type = rope_parameters::scaling::llama3;
    rope.theta = 10000.0;
    rope.factor = 8.0;
    rope.low_freq_factor = 1.0;
    rope.high_freq_factor = 4.0;
    rope.original_context = 256.0;
    return rope;
}

TEST(rope_frequencies, fall_from_one_by_powers_of_theta) {
    const std::vector<float> f = rope_frequencies({}, 64);
    ASSERT_EQ(f.size(), 32u);
    EXPECT_FLOAT_EQ(f[0], 1.0f);
    EXPECT_FLOAT_EQ(f[16], 0.01f);
}

TEST(rope_frequencies, linear_scaling_divides_all) {
    rope_parameters rope;
    rope.type = rope_parameters::scaling::linear;
    rope.factor = 4.0;
    const std::vector<float> plain = rope_frequencies({}, 64), scaled = rope_frequencies(rope, 64);
    for (std::size_t i = 0; i < plain.size(); ++i) EXPECT_FLOAT_EQ(scaled[i], plain[i] / 4.0f);
}

// Wavelengths below 256 / 4 stay, above 256 / 1 are stretched by 8, and between them the frequency
// falls without a jump.
TEST(rope_frequencies, llama3_scaling_keeps_short_and_stretches_long_wavelengths) {
    const std::vector<float> plain = rope_frequencies({}, 64),
                             scaled = rope_frequencies(llama3(), 64);
    int kept = 0, stretched = 0;
    for (std::size_t i = 0; i < plain.size(); ++i) {
        const double wavelength = 2.0 * M_PI / static_cast<double>(plain[i]);
        if (wavelength < 64.0) {
            EXPECT_EQ(scaled[i], plain[i]);
            ++kept;
        } else if (wavelength > 256.0) {
            EXPECT_FLOAT_EQ(scaled[i], plain[i] / 8.0f);
            ++stretched;
        } else {
            EXPECT_LE(scaled[i], plain[i]);
            EXPECT_GE(scaled[i], plain[i] / 8.0f);
        }
        EXPECT_LT(scaled[i], i > 0 ? scaled[i - 1] : 2.0f);
    }
    EXPECT_GT(kept, 0);
    EXPECT_GT(stretched, 0);
}

// With theta 10000 over 64 dimensions and 256 tokens, 32 turns fall before dimension 1 and one turn
// near dimension 13: what is far below is kept, what is far above is stretched.
TEST(rope_frequencies, yarn_scaling_keeps_fast_and_stretches_slow_dimensions) {
    rope_parameters rope;
    rope.type = rope_parameters::scaling::yarn;
    rope.factor = 8.0;
    rope.original_context = 256.0;
    for (const bool truncate : {true, false}) {
        rope.truncate = truncate;
        const std::vector<float> plain = rope_frequencies({}, 64),
                                 scaled = rope_frequencies(rope, 64);
        EXPECT_FLOAT_EQ(scaled[0], plain[0]);
        EXPECT_LT(scaled[6], plain[6]);
        EXPECT_GT(scaled[6], plain[6] / 8.0f);
        for (std::size_t i = 14; i < plain.size(); ++i) EXPECT_FLOAT_EQ(scaled[i], plain[i] / 8.0f);
    }
}

TEST(rope_angles, a_position_has_the_same_angles_in_every_row) {
    auto config = model_config::parse(R"({"model_type": "llama", "num_hidden_layers": 2})");
    ASSERT_TRUE(config);
    config->layers[1].rope = llama3();
    rope_angles angles(*config, 3);
    angles.fill(0, 12345);
    angles.fill(2, 12345);
    const int half = config->head_dim / 2;
    for (const int layer : {0, 1}) {
        for (int i = 0; i < half; ++i) {
            EXPECT_EQ(angles.cosines(layer, 0)[i], angles.cosines(layer, 2)[i]);
            EXPECT_EQ(angles.sines(layer, 0)[i], angles.sines(layer, 2)[i]);
        }
    }
    // Each layer has the frequencies of its own parameters.
    EXPECT_NE(angles.cosines(0, 0)[half - 1], angles.cosines(1, 0)[half - 1]);
    EXPECT_FLOAT_EQ(angles.cosines(0, 0)[0], static_cast<float>(std::cos(12345.0)));
}

// Of a file that llama.cpp's converter made and of its folder, in short contexts and in long ones.
TEST(rope_of_a_gguf, turns_as_that_of_its_folder) {
    for (const auto& [name, folder] :
         std::vector<std::pair<std::string, std::string>>{{"llama32", "llama32"},
                                                          {"smollm3", "smollm3"},
                                                          {"olmo3", "olmo3"},
                                                          {"exaone4", "exaone4"},
                                                          {"arcee", "arcee"},
                                                          {"ministral3", "ministral3-published"},
                                                          {"phi3", "phi3"},
                                                          {"glm4moe", "glm4moe"},
                                                          {"gemma4", "gemma4-published"}}) {
        for (const int context : {512, 8192}) {
            const auto load = [&, context = context](const std::string& path) {
                auto config = model_config::load(path);
                EXPECT_TRUE(config) << path;
                if (context <= config->context_tokens_max) config->choose_rope(context);
                return std::move(*config);
            };
            const model_config published =
                load(SEMANTIC_SOURCE_DIR "/tests/golden/models/" + folder);
            const model_config made = load(tests::golden_gguf(name + ".gguf", folder));
            EXPECT_EQ(made.rope_identity(), published.rope_identity());
            ASSERT_EQ(made.layers.size(), published.layers.size());
            for (std::size_t i = 0; i < made.layers.size(); ++i) {
                const auto frequencies = [&](const model_config& config) {
                    const rope_parameters& rope = config.layers[i].rope;
                    return rope_frequencies(rope,
                                            rope.rotated(config.head_dim_of(config.layers[i])));
                };
                const std::vector<float> got = frequencies(made), expected = frequencies(published);
                ASSERT_EQ(got.size(), expected.size()) << name << " " << i;
                for (std::size_t pair = 0; pair < got.size(); ++pair)
                    EXPECT_NEAR(got[pair], expected[pair], 1e-20f + 1e-6f * expected[pair])
                        << name << ", context " << context << ", layer " << i << ", " << pair;
                EXPECT_NEAR(made.layers[i].rope.amplitude, published.layers[i].rope.amplitude,
                            1e-6);
            }
        }
    }
}

}  // namespace
}  // namespace semantic::engine
