// SPDX-License-Identifier: Apache-2.0
#include "storage/pool/kv_layout.hpp"

#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

#include "storage/pool/block_frames.hpp"

namespace semantic::storage {
namespace {

TEST(kv_layout, regions_follow_each_other_in_the_documented_order) {
    // One layer, 2 heads of 64, 4 bit, 256 tokens: 2*256*32 weight bytes, 2*256*2 bytes of scales,
    // as many of biases.
    const kv_layout layout({{2, 64, 64, 0}}, {4, 64});
    EXPECT_EQ(layout.k(0).row_bytes, 32u);
    EXPECT_EQ(layout.k(0).groups, 1);
    EXPECT_EQ(layout.k(0).weights, 0u);
    EXPECT_EQ(layout.k(0).scales, 16384u);
    EXPECT_EQ(layout.k(0).biases, 17408u);
    EXPECT_EQ(layout.v(0).weights, 18432u);
    EXPECT_EQ(layout.v(0).scales, 34816u);
    EXPECT_EQ(layout.v(0).biases, 35840u);
    EXPECT_EQ(layout.frame_bytes(), 36864u);
    EXPECT_EQ(layout.bytes_per_token(), 144u);
}

TEST(kv_layout, rows_and_scales_are_found_by_head_and_token) {
    const kv_layout layout({{3, 128, 64, 0}}, {8, 64});
    const kv_region& k = layout.k(0);
    EXPECT_EQ(k.row_bytes, 128u);
    EXPECT_EQ(k.groups, 2);
    EXPECT_EQ(k.row_at(256, 1, 2), k.weights + (256 + 2) * 128u);
    EXPECT_EQ(k.scale_at(256, 1, 2), k.scales + (256 + 2) * 4u);
}

TEST(kv_layout, sixteen_bit_has_no_scales) {
    const kv_layout layout({{1, 24, 24, 0}}, {16, 64});
    EXPECT_EQ(layout.k(0).groups, 0);
    EXPECT_EQ(layout.k(0).row_bytes, 48u);
    EXPECT_EQ(layout.bytes_per_token(), 96u);
    EXPECT_EQ(layout.frame_bytes(), 2u * 48 * 256);
}

// DeepSeek-V2-Lite's latent of 512 and rope part of 64 at 8 bit.
TEST(kv_layout, values_inside_keys_take_no_space_of_their_own) {
    const kv_layout layout({{1, 576, 512, 0, true}}, {8, 64});
    const kv_layout keys({{1, 576, 512, 0}}, {8, 64});
    EXPECT_EQ(layout.stored(0).size(), 1u);
    EXPECT_EQ(keys.stored(0).size(), 2u);
    EXPECT_EQ(layout.k(0), keys.k(0));
    EXPECT_EQ(layout.v(0).dim, 512);
    EXPECT_EQ(layout.v(0).groups, 9);  // a row is a key's row
    EXPECT_EQ(layout.v(0).row_bytes, 576u);
    for (int token : {0, 1, 255}) {
        EXPECT_EQ(layout.v(0).row_at(256, 0, token), layout.k(0).row_at(256, 0, token));
        EXPECT_EQ(layout.v(0).scale_at(256, 0, token), layout.k(0).scale_at(256, 0, token));
    }
    EXPECT_EQ(layout.bytes_per_token(), 576u + 9 * 4);
    EXPECT_EQ(layout.frame_bytes(), 256u * (576 + 9 * 4));
}

// Method: small odd blocks make regions that are no multiple of 64 by themselves.
TEST(kv_layout, every_region_starts_on_a_64_byte_boundary) {
    for (int block_tokens : {1, 3, 17, 256})
        for (int bits : {4, 8, 16}) {
            const kv_layout layout({{1, 64, 128, 0}, {3, 192, 64, 7}}, {bits, 32}, block_tokens);
            EXPECT_EQ(layout.frame_bytes() % 64, 0u);
            for (int layer = 0; layer < 2; ++layer)
                for (const kv_region* region : {&layout.k(layer), &layout.v(layer)}) {
                    EXPECT_EQ(region->weights % 64, 0u);
                    EXPECT_EQ(region->scales % 64, 0u);
                    EXPECT_EQ(region->biases % 64, 0u);
                    EXPECT_LE(region->biases, layout.frame_bytes());
                }
        }
}

TEST(kv_layout, a_frame_is_as_large_as_the_largest_layer_needs) {
    const kv_layout small({{1, 64, 64, 0}}, {4, 64});
    const kv_layout large({{4, 64, 64, 0}}, {4, 64});
    const kv_layout both({{1, 64, 64, 0}, {4, 64, 64, 0}}, {4, 64});
    EXPECT_EQ(both.frame_bytes(), large.frame_bytes());
    EXPECT_GT(large.frame_bytes(), small.frame_bytes());
}

// Gemma 4's: full layers with half of the sliding ones' need, or the other way round.
TEST(kv_layout, layers_of_a_part_share_a_frame_that_has_room_for_both) {
    const kv_layer sliding{8, 256, 256, 1024}, full{2, 512, 512, 0};
    const kv_layout layout({sliding, full, sliding, full, full}, {4, 64});
    EXPECT_EQ(layout.frame_bytes(), kv_layout({sliding}, {4, 64}).frame_bytes());
    EXPECT_EQ(frames_of_block(layout, kv_part::sliding), 2u);
    EXPECT_EQ(frames_of_block(layout, kv_part::full), 2u);
    EXPECT_EQ(frames_of_block(layout), 4u);
    EXPECT_EQ(layout.slot(1), 0);
    EXPECT_EQ(layout.slot(3), 0);
    EXPECT_EQ(layout.slot(4), 1);
    EXPECT_EQ(layout.k(1).weights, 0u);
    EXPECT_EQ(layout.k(3).weights, layout.frame_bytes() / 2);
    EXPECT_EQ(layout.k(4).weights, 0u);
    // No region reaches into another layer's, or out of the frame.
    const kv_region& last = layout.v(3);
    EXPECT_EQ(last.biases + 2 * 256 * 8 * 2, layout.frame_bytes());
    EXPECT_EQ(layout.v(1).biases + 2 * 256 * 8 * 2, layout.k(3).weights);
    // 1,000 tokens are 4 blocks of each part.
    EXPECT_EQ(layout.frames_for(1000, 0), 16u);
}

TEST(kv_layout, layers_of_different_parts_share_no_frame) {
    const kv_layout layout({{4, 64, 64, 0}, {1, 64, 64, 0}, {1, 64, 64, 7}}, {4, 64});
    EXPECT_EQ(frames_of_block(layout, kv_part::full), 2u);
    EXPECT_EQ(frames_of_block(layout, kv_part::sliding), 1u);
    EXPECT_EQ(layout.k(2).weights, 0u);
}

TEST(kv_layout, impossible_geometry_is_refused) {
    using layers = std::vector<kv_layer>;
    const kv_recipe q4{4, 64};
    EXPECT_THROW(kv_layout(layers{}, q4), std::invalid_argument);
    EXPECT_THROW(kv_layout(layers{{0, 64, 64, 0}}, q4), std::invalid_argument);
    EXPECT_THROW(kv_layout(layers{{1, 0, 64, 0}}, q4), std::invalid_argument);
    EXPECT_THROW(kv_layout(layers{{1, 64, -64, 0}}, q4), std::invalid_argument);
    EXPECT_THROW(kv_layout(layers{{1, 64, 64, -1}}, q4), std::invalid_argument);
    EXPECT_THROW(kv_layout(layers{{1, 65, 64, 0}}, q4), std::invalid_argument);
    EXPECT_THROW(kv_layout(layers{{1, 64, 64, 0}}, kv_recipe{7, 64}), std::invalid_argument);
    EXPECT_THROW(kv_layout(layers{{1, 64, 64, 0}}, kv_recipe{4, 0}), std::invalid_argument);
    EXPECT_THROW(kv_layout(layers{{1, 12, 12, 0}}, kv_recipe{4, 12}), std::invalid_argument);
    EXPECT_THROW(kv_layout(layers{{1, 64, 64, 0}}, q4, 0), std::invalid_argument);
    EXPECT_THROW(kv_layout(layers{{(1 << 20) + 1, 64, 64, 0}}, q4), std::invalid_argument);
    EXPECT_THROW(kv_layout(layers{{1, 64, 128, 0, true}}, q4), std::invalid_argument);
    EXPECT_NO_THROW(kv_layout(layers{{1, 64, 64, 0, true}}, q4));
    EXPECT_NO_THROW(kv_layout(layers{{1, 65, 65, 0}}, kv_recipe{16, 64}));
}

}  // namespace
}  // namespace semantic::storage
