// SPDX-License-Identifier: Apache-2.0
#pragma once
// The layout of attention_block::scratch. A function for each way to attend returns all offsets and
// the end, both for callers that allocate it and for kernels that use it.
// Thread: pure. Nothing here allocates.

#include <algorithm>
#include <cstddef>

#include "engine/kernels/kernels.hpp"

namespace semantic::engine {

/// Tokens of K and V that attention unpacks at a time: 64 x 64 floats fill a third of a 48 KiB L1.
/// Where values have less than 8 bits the weights are rounded tile by tile, which makes this a part
/// of the definition.
inline constexpr int attention_tile_tokens = 64;

/// Gives parts consecutive offsets, in whole registers of 16 floats, so that the last register of a
/// part is stored without a mask, and every part begins on a cache line if the first one does.
class scratch_counter {
  public:
    /// Returns: the offset of a part of `floats` floats.
    constexpr std::size_t add(std::size_t floats) noexcept {
        const std::size_t begin = end_;
        end_ += padded(floats);
        return begin;
    }
    constexpr std::size_t end() const noexcept { return end_; }
    static constexpr std::size_t padded(std::size_t n, std::size_t to = 16) noexcept {
        return (n + to - 1) / to * to;
    }
    /// Groups of 64 elements that share a scale.
    static constexpr std::size_t groups(int dim) noexcept {
        return (static_cast<std::size_t>(dim) + group_size - 1) / group_size;
    }

  private:
    std::size_t end_ = 0;
};

/// Scratch of attention with values of 8 or 16 bits, offsets in floats. The parts of states and key
/// scales are larger than needed: with less distance between keys and values, 3 rows at 8 bits took
/// 4 % longer.
struct float_attention_scratch {
    std::size_t score_stride;  // floats from one row of scores to the next
    std::size_t out_stride;    // floats from one row of output, or one token's values, to the next
    std::size_t scores;        // [count][score_stride], then the weights p in their place
    std::size_t out;           // [count][out_stride]
    std::size_t states;        // softmax_state [count]
    std::size_t ranges;        // int [at most count][2], after the states in their part
    std::size_t keys;          // one key tile: [k_dim][16 tokens], floats or fewer bytes
    std::size_t key_scales;    // [k groups][16], then biases alike
    std::size_t value_scales;  // [score_stride][v groups], then biases alike
    std::size_t values;        // [attention_tile_tokens][out_stride]
    std::size_t end;
};

constexpr float_attention_scratch lay_out_float_attention(int count, int tokens, int k_dim,
                                                          int v_dim) noexcept {
    const auto rows = static_cast<std::size_t>(count);
    const std::size_t k_groups = scratch_counter::groups(k_dim);
    const std::size_t v_groups = scratch_counter::groups(v_dim);
    scratch_counter parts;
    float_attention_scratch s{};
    s.score_stride =
        scratch_counter::padded(static_cast<std::size_t>(tokens), attention_tile_tokens);
    s.out_stride = scratch_counter::padded(static_cast<std::size_t>(v_dim));
    s.scores = parts.add(rows * s.score_stride);
    s.out = parts.add(rows * s.out_stride);
    s.states = parts.add(rows * lane_count);
    s.ranges = s.states + rows * 2;
    s.keys = parts.add(lane_count * scratch_counter::padded(static_cast<std::size_t>(k_dim)));
    s.key_scales = parts.add(k_groups * group_size);
    s.value_scales = parts.add(2 * s.score_stride * v_groups);
    s.values = parts.add(attention_tile_tokens * s.out_stride);
    s.end = parts.end();
    return s;
}

/// Scratch of attention by tiles, offsets in floats.
struct tiled_attention_scratch {
    /// |scale| and centre of a tile's values as integers, see fixed_point_scales.
    struct fixed {
        std::size_t sizes;         // int16 [v groups][64]
        std::size_t centres;       // the same
        std::size_t size_units;    // [v groups]
        std::size_t centre_units;  // [v groups]
    };
    std::size_t q;            // int8 [count][k_dim], in the order of the keys
    std::size_t q_scales;     // [count][k groups]
    std::size_t q_sums;       // the same
    std::size_t maxima;       // [count]
    std::size_t sums;         // [count][16]
    std::size_t centres;      // [count][v groups][16]
    std::size_t out;          // [count][v_dim]
    std::size_t keys;         // bytes [k groups][16][64 tokens][4]
    std::size_t key_scales;   // [k groups][64], then biases alike
    std::size_t values;       // bytes [v groups][16 quads][64][4 tokens]
    std::size_t value_sizes;  // [v groups][64], then centres alike
    std::size_t sign_masks;   // bytes [v groups][64]
    fixed whole, part;
    std::size_t end;
};

/// Requires: k_dim and v_dim are multiples of 64; others are counted as the next one.
constexpr tiled_attention_scratch lay_out_tiled_attention(int count, int k_dim,
                                                          int v_dim) noexcept {
    const auto rows = static_cast<std::size_t>(count);
    constexpr std::size_t tile = attention_tile_tokens;
    const std::size_t k_groups = scratch_counter::groups(k_dim);
    const std::size_t v_groups = scratch_counter::groups(v_dim);
    scratch_counter parts;
    tiled_attention_scratch s{};
    s.q = parts.add(rows * k_groups * group_size / 4);
    s.q_scales = parts.add(rows * k_groups);
    s.q_sums = parts.add(rows * k_groups);
    s.maxima = parts.add(rows);
    s.sums = parts.add(rows * lane_count);
    s.centres = parts.add(rows * v_groups * lane_count);
    s.out = parts.add(rows * v_groups * group_size);
    s.keys = parts.add(tile * k_groups * group_size / 4);
    s.key_scales = parts.add(2 * k_groups * tile);
    s.values = parts.add(tile * v_groups * group_size / 4);
    s.value_sizes = parts.add(2 * v_groups * tile);
    s.sign_masks = parts.add(v_groups * tile / 4);
    for (tiled_attention_scratch::fixed* scales : {&s.whole, &s.part}) {
        scales->sizes = parts.add(v_groups * tile / 2);
        scales->centres = parts.add(v_groups * tile / 2);
        scales->size_units = parts.add(v_groups);
        scales->centre_units = parts.add(v_groups);
    }
    s.end = parts.end();
    return s;
}

/// Floats that attention_block::scratch needs, whatever its bits; grows with each argument.
constexpr std::size_t attention_scratch_floats(int count, int tokens, int k_dim,
                                               int v_dim) noexcept {
    return std::max(lay_out_float_attention(count, tokens, k_dim, v_dim).end,
                    lay_out_tiled_attention(count, k_dim, v_dim).end);
}

}  // namespace semantic::engine
