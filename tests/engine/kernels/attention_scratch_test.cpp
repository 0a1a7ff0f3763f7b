// SPDX-License-Identifier: Apache-2.0
// The scratch of attention: its parts follow each other without overlap and end inside what callers
// make room for.

#include "engine/kernels/attention_scratch.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

namespace semantic::engine {
namespace {

struct shape {
    int count, tokens, k_dim, v_dim;
};
constexpr shape shapes[] = {{1, 1, 64, 64},      {1, 256, 64, 64},     {3, 37, 16, 80},
                            {4, 256, 128, 128},  {12, 65, 96, 112},    {25, 200, 192, 64},
                            {255, 256, 64, 128}, {255, 256, 576, 512}, {1024, 64, 64, 64}};

/// A part and what its readers and writers touch, counted here a second time: in floats.
struct part {
    std::size_t begin;
    double floats;
};

/// Each part begins in a register of its own, after the end of the one before; the last one ends at
/// `end`.
void expect_in_order(const std::vector<part>& parts, std::size_t end, const shape& s) {
    double free = 0;
    for (const part& p : parts) {
        EXPECT_EQ(p.begin % lane_count, 0U);
        EXPECT_GE(static_cast<double>(p.begin), free) << s.count << " rows, dim " << s.k_dim;
        free = static_cast<double>(p.begin) + p.floats;
    }
    EXPECT_LE(free, static_cast<double>(end)) << s.count << " rows, dim " << s.k_dim;
    EXPECT_LE(end, attention_scratch_floats(s.count, s.tokens, s.k_dim, s.v_dim));
}

TEST(attention_scratch, parts_of_wide_values_do_not_overlap_and_end_inside) {
    for (const shape& s : shapes) {
        const auto at = lay_out_float_attention(s.count, s.tokens, s.k_dim, s.v_dim);
        const double count = s.count, k_groups = (s.k_dim + 63) / 64,
                     v_groups = (s.v_dim + 63) / 64;
        const double tokens = (s.tokens + 63) / 64 * 64.0;  // whole tiles are written
        EXPECT_GE(static_cast<double>(at.score_stride), tokens);
        EXPECT_GE(static_cast<int>(at.out_stride), s.v_dim);
        EXPECT_EQ(at.ranges,
                  at.states + static_cast<std::size_t>(s.count) * sizeof(softmax_state) / 4);
        expect_in_order({{at.scores, count * tokens},
                         {at.out, count * s.v_dim},
                         {at.states, count * (sizeof(softmax_state) + 2 * sizeof(int)) / 4},
                         {at.keys, 16.0 * s.k_dim},
                         {at.key_scales, 2 * k_groups * 16},
                         {at.value_scales, 2 * tokens * v_groups},
                         {at.values, 64.0 * static_cast<double>(at.out_stride)}},
                        at.end, s);
    }
}

TEST(attention_scratch, parts_of_tiles_do_not_overlap_and_end_inside) {
    for (const shape& s : shapes) {
        if (s.k_dim % 64 != 0 || s.v_dim % 64 != 0) continue;
        const auto at = lay_out_tiled_attention(s.count, s.k_dim, s.v_dim);
        const double count = s.count, k_groups = s.k_dim / 64, v_groups = s.v_dim / 64;
        expect_in_order({{at.q, count * s.k_dim / 4},
                         {at.q_scales, count * k_groups},
                         {at.q_sums, count * k_groups},
                         {at.maxima, count},
                         {at.sums, count * 16},
                         {at.centres, count * v_groups * 16},
                         {at.out, count * s.v_dim},
                         {at.keys, 64.0 * s.k_dim / 4},
                         {at.key_scales, 2 * k_groups * 64},
                         {at.values, 64.0 * s.v_dim / 4},
                         {at.value_sizes, 2 * v_groups * 64},
                         {at.sign_masks, v_groups * 64 / 4},
                         {at.whole.sizes, v_groups * 64 / 2},
                         {at.whole.centres, v_groups * 64 / 2},
                         {at.whole.size_units, v_groups},
                         {at.whole.centre_units, v_groups},
                         {at.part.sizes, v_groups * 64 / 2},
                         {at.part.centres, v_groups * 64 / 2},
                         {at.part.size_units, v_groups},
                         {at.part.centre_units, v_groups}},
                        at.end, s);
    }
}

TEST(attention_scratch, grows_with_each_argument) {
    for (const shape& s : shapes) {
        const auto floats = attention_scratch_floats(s.count, s.tokens, s.k_dim, s.v_dim);
        EXPECT_LE(floats, attention_scratch_floats(s.count + 1, s.tokens, s.k_dim, s.v_dim));
        EXPECT_LE(floats, attention_scratch_floats(s.count, s.tokens + 1, s.k_dim, s.v_dim));
        EXPECT_LE(floats, attention_scratch_floats(s.count, s.tokens, s.k_dim + 16, s.v_dim));
        EXPECT_LE(floats, attention_scratch_floats(s.count, s.tokens, s.k_dim, s.v_dim + 16));
    }
}

}  // namespace
}  // namespace semantic::engine
