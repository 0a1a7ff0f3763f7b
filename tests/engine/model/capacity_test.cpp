// SPDX-License-Identifier: Apache-2.0
// The figures of engine/README.md's table, from the published sizes in tests/golden/configs.

#include "engine/model/capacity.hpp"

#include <gtest/gtest.h>

#include <string>

#include "engine/model/config/model_config.hpp"

namespace semantic::engine {
namespace {

storage::kv_layout layout_of(const std::string& name, int kv_bits) {
    auto config = model_config::load(SEMANTIC_SOURCE_DIR "/tests/golden/configs/" + name);
    EXPECT_TRUE(config) << (config ? "" : config.error().what);
    return make_kv_layout(*config, {kv_bits, 64}, 256);
}

constexpr std::uint64_t pool = std::uint64_t{8} << 30;

struct figures {
    const char* name;
    int kv_bits;
    std::uint64_t per_token, lasting, agents_of_4k, agents_of_16k;
    std::uint64_t unused = 0;  // of a token's frames, all of it in those of full layers
};

class capacity : public testing::TestWithParam<figures> {};

TEST_P(capacity, is_what_the_table_says) {
    const figures& want = GetParam();
    const storage::kv_layout layout = layout_of(want.name, want.kv_bits);
    EXPECT_EQ(layout.bytes_per_token(), want.per_token);
    EXPECT_EQ(lasting_bytes_per_token(layout), want.lasting);
    EXPECT_EQ(pool_bytes_per_token(layout), want.per_token + want.unused);
    EXPECT_EQ(lasting_pool_bytes_per_token(layout), want.lasting + want.unused);
    EXPECT_EQ(conversations_in(layout, 4096, pool), want.agents_of_4k);
    EXPECT_EQ(conversations_in(layout, 16384, pool), want.agents_of_16k);
}

// A group of 64 elements takes 32 bytes and an f16 scale and bias at 4 bit, 128 bytes at 16.
// Llama 3.1 8B: 32 layers x 8 heads x 128 x K and V = 1024 groups. An agent of 4096 tokens has 16
// blocks in each full layer and, in a sliding one, the 5 that a window of 1024 can touch or the 2
// that one of 128 can. Gemma 4 31B: 50 sliding layers x 16 x 256 and 10 full ones x 4 x 512, of
// which two share a frame; 12B: four of 8 full ones; E2B and E4B: two sliding ones; 26B-A4B: two of
// 5 full ones, so that half of the third frame is unused.
INSTANTIATE_TEST_SUITE_P(published, capacity,
                         testing::Values(figures{"llama-3.1-8b", 4, 36864, 36864, 56, 14},
                                         figures{"llama-3.1-8b", 16, 131072, 131072, 16, 4},
                                         figures{"qwen2.5-14b", 4, 55296, 55296, 37, 9},
                                         figures{"qwen2.5-14b", 16, 196608, 196608, 10, 2},
                                         figures{"gemma-3-12b", 4, 110592, 18432, 44, 20},
                                         figures{"gemma-3-12b", 16, 393216, 65536, 12, 5},
                                         figures{"gemma-4-31b", 4, 253440, 23040, 22, 12},
                                         figures{"gemma-4-31b", 16, 901120, 81920, 6, 3},
                                         figures{"gemma-4-26b-a4b", 4, 63360, 5760, 84, 45, 1152},
                                         figures{"gemma-4-26b-a4b", 16, 225280, 20480, 23, 12,
                                                 4096},
                                         figures{"gemma-4-12b", 4, 96768, 4608, 62, 44},
                                         figures{"gemma-4-12b", 16, 344064, 16384, 17, 12},
                                         figures{"gemma-4-e4b", 4, 16128, 4608, 309, 101},
                                         figures{"gemma-4-e4b", 16, 57344, 16384, 87, 28},
                                         figures{"gemma-4-e2b", 4, 5184, 1728, 882, 277},
                                         figures{"gemma-4-e2b", 16, 18432, 6144, 248, 78},
                                         figures{"gpt-oss-20b", 4, 13824, 6912, 269, 73},
                                         figures{"gpt-oss-20b", 16, 49152, 24576, 75, 20},
                                         figures{"deepseek-v2-lite", 8, 16524, 16524, 126, 31},
                                         figures{"deepseek-v2-lite", 16, 31104, 31104, 67, 16}),
                         [](const auto& each) {
                             std::string name = std::string(each.param.name) + "_" +
                                                std::to_string(each.param.kv_bits);
                             for (char& c : name) c = c == '-' || c == '.' ? '_' : c;
                             return name;
                         });

// Qwen3.5-4B: 24 layers with 32 matrices of 128 x 128 and 3 columns of 8,192, all f32, are 50.25
// MiB; 8 layers of 4 heads of 256 take 32 KiB a token at 16 bit. 8 GiB hold agents of 128 MiB and
// two states each: 35.
TEST(capacity, of_a_hybrid_counts_the_newest_two_states_of_each_agent) {
    const auto config = model_config::parse(R"({"model_type": "qwen3_5_text",
        "num_hidden_layers": 32, "full_attention_interval": 4, "hidden_size": 2560,
        "intermediate_size": 9216, "num_attention_heads": 16, "num_key_value_heads": 4,
        "head_dim": 256, "linear_num_key_heads": 16, "linear_num_value_heads": 32,
        "linear_key_head_dim": 128, "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4})");
    ASSERT_TRUE(config) << config.error().what;
    const storage::kv_layout layout = make_kv_layout(*config, {16, 64}, 256);
    EXPECT_EQ(config->state_bytes(), std::size_t{24} * (32 * 128 * 128 + 3 * 8192) * 4);
    EXPECT_EQ(layout.bytes_per_token(), 32768u);
    const std::uint64_t kept = kept_state_bytes(*config);
    EXPECT_EQ(kept, 2 * config->state_bytes());
    EXPECT_EQ(conversations_in(layout, 4096, pool, kept), 35u);
    EXPECT_EQ(conversations_in(layout, 16384, pool, kept), 13u);
    // A frame is 1 MiB, and two states take 100.5.
    const std::uint64_t one = std::uint64_t{128 + 101} << 20;
    EXPECT_EQ(conversations_in(layout, 4096, one, kept), 1u);
    EXPECT_EQ(conversations_in(layout, 4096, one - 1, kept), 0u);
}

TEST(capacity, a_window_reaches_one_block_more_with_each_block_of_tokens) {
    const auto frames = [](int window) {
        return frames_of_conversation(storage::kv_layout({{1, 64, 64, window}}, {4, 64}, 256),
                                      4096);
    };
    EXPECT_EQ(frames(1), 1u);
    EXPECT_EQ(frames(2), 2u);
    EXPECT_EQ(frames(257), 2u);
    EXPECT_EQ(frames(258), 3u);
    EXPECT_EQ(frames(0), 16u);
    EXPECT_EQ(frames(100000), 16u);
}

}  // namespace
}  // namespace semantic::engine
