// SPDX-License-Identifier: Apache-2.0
#include "engine/model/weights/gguf_blocks.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <string>

#include "storage/files/safetensors.hpp"

namespace semantic::engine {
namespace {

using storage::gguf_type;

struct type_case {
    const char* name;
    gguf_type type;
};
constexpr type_case cases[] = {
    {"F16", gguf_type::f16},       {"BF16", gguf_type::bf16},     {"Q4_0", gguf_type::q4_0},
    {"Q4_1", gguf_type::q4_1},     {"Q5_0", gguf_type::q5_0},     {"Q5_1", gguf_type::q5_1},
    {"Q8_0", gguf_type::q8_0},     {"Q2_K", gguf_type::q2_k},     {"Q3_K", gguf_type::q3_k},
    {"Q4_K", gguf_type::q4_k},     {"Q5_K", gguf_type::q5_k},     {"Q6_K", gguf_type::q6_k},
    {"IQ4_NL", gguf_type::iq4_nl}, {"IQ4_XS", gguf_type::iq4_xs}, {"MXFP4", gguf_type::mxfp4},
};

class gguf_block_type : public testing::TestWithParam<type_case> {};

TEST_P(gguf_block_type, gives_the_reference_readers_weights_bit_for_bit) {
    const auto golden = storage::safetensors_file::open(SEMANTIC_SOURCE_DIR
                                                        "/tests/golden/gguf_blocks.safetensors");
    ASSERT_TRUE(golden) << golden.error().what;
    const std::string name = GetParam().name;
    const auto blocks = golden->view().tensors.at(name + ".blocks").bytes;
    const auto expected = golden->view().tensors.at(name + ".weights").bytes;
    std::vector<float> weights(expected.size() / sizeof(float));
    ASSERT_TRUE(can_dequantize(GetParam().type));
    dequantize(GetParam().type, blocks, weights);
    for (std::size_t i = 0; i < weights.size(); ++i) {
        float right;
        std::memcpy(&right, expected.data() + i * sizeof(float), sizeof right);
        // 0 * scale + -0.0 and 0 are the same weight.
        ASSERT_EQ(weights[i], right) << name << " element " << i;
    }
}

INSTANTIATE_TEST_SUITE_P(types, gguf_block_type, testing::ValuesIn(cases),
                         [](const auto& one) { return std::string(one.param.name); });

TEST(gguf_blocks, types_that_are_not_read_have_no_decoder) {
    for (const gguf_type type : {gguf_type::iq1_s, gguf_type::iq2_xxs, gguf_type::iq3_s,
                                 gguf_type::tq1_0, gguf_type::i8, gguf_type::f64}) {
        EXPECT_FALSE(can_dequantize(type)) << storage::find_block_size(type)->name;
        EXPECT_EQ(find_block_decoder(type), nullptr);
    }
}

TEST(gguf_blocks, groups_divide_their_blocks) {
    for (const type_case& each : cases) {
        const block_decoder* decoder = find_block_decoder(each.type);
        if (decoder == nullptr) continue;
        const auto elements = storage::find_block_size(each.type)->elements;
        EXPECT_TRUE(decoder->group == 16 || decoder->group == 32) << each.name;
        EXPECT_EQ(elements % static_cast<std::size_t>(decoder->group), 0u) << each.name;
        EXPECT_LE(elements / static_cast<std::size_t>(decoder->group), 16u) << each.name;
    }
}

}  // namespace
}  // namespace semantic::engine
