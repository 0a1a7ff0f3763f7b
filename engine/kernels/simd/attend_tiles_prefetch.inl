// SPDX-License-Identifier: Apache-2.0
// Attention by tiles: prefetch of the next frame's keys, values and scales during the products of
// this one. A core has some 24 cache lines in flight and stalls at more, so each step of a product
// prefetches a few lines.

/// Steps in which the product of a tile and one group prefetches.
constexpr int prefetch_steps = 2 * tile_lanes;

/// Prefetches the lines of [from, from + bytes), rounded up to 4 lines of 64 bytes; into L1 or,
/// where they wait longer for their use, into L2. Inlined: GCC sees no effect in a function that
/// only prefetches and drops calls of it.
template <bool into_l1>
SIMD_INLINE void prefetch_lines(const std::byte* from, index bytes) {
    for (const std::byte* end = from + bytes; from < end; from += 4 * 64) {
#pragma GCC unroll 4
        for (index line = 0; line < 4; ++line) {
            __builtin_prefetch(from + line * 64, 0, into_l1 ? 3 : 2);
        }
    }
}

/// The keys that belong to some steps of the product of `row` with a tile's keys. Nothing unless
/// `row` is the one that prefetches for this tile.
template <bool into_l1>
SIMD_INLINE void prefetch_keys(const frame_prefetch& next, int row, index step, int steps = 1) {
    prefetch_lines<into_l1>(next.keys + step * next.key_step,
                            row == next.row ? steps * next.key_step : 0);
}
/// The same of the values, for the product of weights and values.
template <bool into_l1>
SIMD_INLINE void prefetch_values(const frame_prefetch& next, int row, index step, int steps = 1) {
    prefetch_lines<into_l1>(next.values + step * next.value_step,
                            row == next.row ? steps * next.value_step : 0);
}

/// Scales and biases go to L1 at once: they are few, and a tile reads them before its products
/// begin, when nothing hides a miss.
SIMD_INLINE void prefetch_scales(const kv_rows& rows, const frame_prefetch& next) {
    const index scale_bytes = 2 * static_cast<index>(rows.row_scales);
    const auto* scales = reinterpret_cast<const std::byte*>(rows.scales) + next.first * scale_bytes;
    const auto* biases = reinterpret_cast<const std::byte*>(rows.biases) + next.first * scale_bytes;
    for (index i = 0; i < next.tokens * scale_bytes; i += 64) {
        __builtin_prefetch(scales + i, 0, 3);
        __builtin_prefetch(biases + i, 0, 3);
    }
}

/// Divides the next frame among the `tiles` of this one. Returns: the first tile's part.
SIMD frame_prefetch begin_prefetch(const attention_block& block, int tiles) {
    const kv_rows &k = block.next_k, &v = block.next_v;
    const index tokens = (block.next_tokens + tiles - 1) / tiles;
    const auto step = [tokens](const kv_rows& rows, int dim) {
        return tokens * static_cast<index>(rows.row_bytes) / (dim / group_size * prefetch_steps);
    };
    const bool same = k.rows == v.rows;
    return {0, tokens, k.rows, v.rows, step(k, block.k.dim), same ? 0 : step(v, block.v.dim), -1};
}

/// The next tile's part.
SIMD_INLINE void advance_prefetch(const attention_block& block, frame_prefetch& next) {
    next.first += next.tokens;
    next.keys += next.tokens * static_cast<index>(block.next_k.row_bytes);
    next.values += next.tokens * static_cast<index>(block.next_v.row_bytes);
    next.row = -1;
}
