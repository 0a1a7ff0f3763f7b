// Attention at 4 bit: the next frame is asked for while this one is computed with.

/// What the first of `tiles` asks for. While the products of a tile are made, memory is asked for
/// what the next frame's tiles will need, a few lines at a time: a core waits when much is on its
/// way. Into L1 where few rows read it packed, and so take little longer than memory does.
SIMD asked_rows first_asked(const attention_block& block, int tiles) {
    const kv_rows &k = block.next_k, &v = block.next_v;
    const index tokens = (block.next_tokens + tiles - 1) / tiles;
    const auto step = [tokens](const kv_rows& rows, int dim) {
        return tokens * static_cast<index>(rows.row_bytes) / (dim / group_size * tile_lanes);
    };
    const bool same = k.rows == v.rows;
    return {0, tokens, k.rows, v.rows, step(k, block.k.dim), same ? 0 : step(v, block.v.dim), -1};
}
/// Goes on to what the next tile asks for.
SIMD_INLINE void go_on_asking(const attention_block& block, asked_rows& asked) {
    asked.first += asked.tokens;
    asked.keys += asked.tokens * static_cast<index>(block.next_k.row_bytes);
    asked.values += asked.tokens * static_cast<index>(block.next_v.row_bytes);
    asked.row = -1;
}

/// Scales are few enough to be asked for at once, and into L1: they are read before the products
/// have begun, when nothing hides a wait for them.
SIMD_INLINE void ask_for_scales(const kv_rows& rows, const asked_rows& asked) {
    const index scale_bytes = 2 * static_cast<index>(rows.row_scales);
    const auto* scales =
        reinterpret_cast<const std::byte*>(rows.scales) + asked.first * scale_bytes;
    const auto* biases =
        reinterpret_cast<const std::byte*>(rows.biases) + asked.first * scale_bytes;
    for (index i = 0; i < asked.tokens * scale_bytes; i += 64) {
        __builtin_prefetch(scales + i, 0, 3);
        __builtin_prefetch(biases + i, 0, 3);
    }
}

/// Asks memory for `bytes` from `from` on, or up to 7 lines of 64 bytes more; into L1 or, where it
/// will be a while, L2. Inlined, because the compiler drops calls of what does nothing else.
template <bool soon>
SIMD_INLINE void ask_for(const std::byte* from, index bytes) {
    for (const std::byte* end = from + bytes; from < end; from += 8 * 64) {
#pragma GCC unroll 8
        for (index line = 0; line < 8; ++line) {
            __builtin_prefetch(from + line * 64, 0, soon ? 3 : 2);
        }
    }
}

/// The part of asked_rows that belongs to the products of `row` at a step.
template <bool soon>
SIMD_INLINE void ask_for_keys(const asked_rows& asked, int row, index step) {
    ask_for<soon>(asked.keys + step * asked.key_step, row == asked.row ? asked.key_step : 0);
}
template <bool soon>
SIMD_INLINE void ask_for_values(const asked_rows& asked, int row, index step) {
    ask_for<soon>(asked.values + step * asked.value_step, row == asked.row ? asked.value_step : 0);
}
