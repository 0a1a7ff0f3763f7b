// SPDX-License-Identifier: Apache-2.0
// Attention over one packed frame whose values have less than 8 bits: the driver. See elements.inl
// for how the files here are used; attend_tiles_unpack.inl, _prefetch.inl, _softmax.inl and
// _products.inl are its parts. A frame is computed tile by tile of 64 tokens. A tile's keys and
// values are unpacked once for all query rows: keys with the token as lane, values with 4 tokens in
// one word, so that both products are integer ones. A strip of up to 24 rows then goes from scores
// to weights to output while its scores and weights stay in L1.

/// Calls phase.operator()<n>() with n = count. Requires: 0 < count <= most.
template <int most, class Phase>
SIMD_INLINE void with_rows(int count, const Phase& phase) {
    if constexpr (most > 1) {
        if (count < most) {
            with_rows<most - 1>(count, phase);
            return;
        }
    }
    phase.template operator()<most>();
}

/// Calls phase.operator()<n>(i) for rows [i, i + n) until there are `count`, at most `most` at
/// once.
template <int most, class Phase>
SIMD_INLINE void over_rows(int count, const Phase& phase) {
    for (int i = 0; i < count; i += most) {
        with_rows<most>(count - i < most ? count - i : most,
                        [&]<int rows>() SIMD { phase.template operator()<rows>(i); });
    }
}

/// Calls body.operator()<bits>(). Requires: 4, 5, 6 or, if keys, 7 or 8 bits.
template <bool keys, class Body>
SIMD_INLINE void with_bits(int bits, const Body& body) {
    if (bits == 4) {
        body.template operator()<4>();
    } else if (bits == 5) {
        body.template operator()<5>();
    } else if (bits == 6 || !keys) {
        body.template operator()<6>();
    } else if constexpr (keys) {
        if (bits == 7) {
            body.template operator()<7>();
        } else {
            body.template operator()<8>();
        }
    }
}

/// `count` rows from r against the tile at t0. whole: these rows see all of the tile. Each phase
/// runs for all rows before the next phase starts.
template <bool packed>
SIMD_PHASE void attend_strip(const attention_block& block, const tile_parts& s, int r, int t0,
                             int count, bool whole) {
    constexpr int most = packed ? packed_rows_max : level_rows_max;
    alignas(64) float x[strip_rows_max * tile_tokens];
    alignas(64) std::int16_t p[strip_rows_max * tile_tokens];
    alignas(64) std::uint8_t levels[strip_rows_max * tile_tokens];
    float factors[strip_rows_max + lane_count];
    const auto rows_from = [&](int i) SIMD {
        return strip_rows{r + i,
                          t0,
                          whole ? &s.whole : &s.part,
                          x + i * tile_tokens,
                          p + i * tile_tokens,
                          levels + i * tile_tokens,
                          factors + i};
    };
    with_bits<true>(block.k.bits, [&]<int bits>() SIMD {
        over_rows<most>(count, [&]<int rows>(int i) SIMD {
            if constexpr (packed) {
                qk_packed<rows, bits>(block, s, r + i, t0, x + i * tile_tokens);
            } else {
                qk_tile<rows, carry_steps(bits)>(block, s, r + i, x + i * tile_tokens);
            }
        });
    });
    if (whole) {
        over_rows<most>(count, [&]<int rows>(int i)
                                   SIMD { softmax_rows<rows, false>(block, s, rows_from(i)); });
    } else {
        over_rows<1>(
            count, [&]<int rows>(int i) SIMD { softmax_rows<rows, true>(block, s, rows_from(i)); });
    }
    for (index g = 0; g < block.v.dim / group_size; ++g) {
        if (g > 0) {
            over_rows<most>(count, [&]<int rows>(int i) SIMD {
                requantize_weights<rows>(block, s, rows_from(i), g);
            });
        }
        with_bits<false>(block.v.bits, [&]<int bits>() SIMD {
            over_rows<most>(count, [&]<int rows>(int i) SIMD {
                if constexpr (packed) {
                    pv_packed<rows, bits>(block, s, rows_from(i), g);
                } else {
                    pv_tile<rows, carry_steps(bits)>(block, s, rows_from(i), g);
                }
            });
        });
    }
}

/// All rows against the tile at t0, in strips of neighbours that see the same part of the tile.
SIMD void attend_tile_rows(const attention_block& block, tile_parts& s, int t0) {
    const int t1 = t0 + tile_tokens;
    const auto attend = [&](int r, int count, bool whole) {
        if (s.next.row < 0) {
            s.next.row = r;
        }
        if (block.count <= packed_rows_max) {
            attend_strip<true>(block, s, r, t0, count, whole);
        } else {
            attend_strip<false>(block, s, r, t0, count, whole);
        }
    };
    // The usual case: nearly every tile of a long context is seen whole by all rows.
    if (s.seen.all_begin <= t0 && s.seen.all_end >= t1) {
        for (int r = 0; r < block.count; r += strip_rows_max) {
            const int left = block.count - r;
            attend(r, left < strip_rows_max ? left : strip_rows_max, true);
        }
        return;
    }
    const auto sees = [&block, t0, t1](int r) {
        return block.begin[r] < t1 && block.end[r] > t0 && block.begin[r] < block.end[r];
    };
    const auto sees_all = [&block, t0, t1](int r) {
        return block.begin[r] <= t0 && block.end[r] >= t1;
    };
    // Whether two rows see the same part of the tile.
    const auto alike = [&](int a, int b) {
        return sees_all(a) ? sees_all(b)
                           : block.begin[a] == block.begin[b] && block.end[a] == block.end[b];
    };
    for (int r = 0; r < block.count;) {
        if (!sees(r)) {
            ++r;
            continue;
        }
        int count = 1;
        while (count < strip_rows_max && r + count < block.count && alike(r, r + count)) {
            ++count;
        }
        const bool whole = sees_all(r);
        if (!whole) {
            to_fixed_point<false>(block, s, t0, block.begin[r], block.end[r], s.part);
        }
        attend(r, count, whole);
        r += count;
    }
}

SIMD void attend_tiles(const attention_block& block) {
    tile_parts s = divide_tiled_scratch(block);
    if (s.seen.begin >= s.seen.end) {
        return;
    }
    const index groups = block.v.dim / group_size, dim = block.v.dim;
    prepare_queries(block, s);
    const auto fill = [](float* from, index floats, float value) SIMD {
        for (index i = 0; i < floats; i += lane_count) {
            store(from + i, set1(value));
        }
    };
    fill(s.maxima, block.count, -__builtin_inff());
    fill(s.sums, block.count * lane_count, 0.0f);
    fill(s.centres, block.count * groups * lane_count, 0.0f);
    fill(s.out, block.count * dim, 0.0f);
    const int first = s.seen.begin / tile_tokens;
    s.next = begin_prefetch(block, (s.seen.end + tile_tokens - 1) / tile_tokens - first);
    for (int t0 = first * tile_tokens; t0 < s.seen.end; t0 += tile_tokens) {
        prefetch_scales(block.next_k, s.next);
        prefetch_scales(block.next_v, s.next);
        widen_scales(block.k, t0, block.tokens, s.key_scales);
        const bool all = sees_tile(s, t0);
        if (all) {
            split_value_scales<true>(block, s, t0);
            to_fixed_point<true>(block, s, t0, t0, t0 + tile_tokens, s.whole);
        } else {
            split_value_scales<false>(block, s, t0);
        }
        if (block.count > packed_rows_max) {
            with_bits<true>(block.k.bits,
                            [&]<int bits>() SIMD { unpack_keys<bits>(block, s, t0); });
            with_bits<false>(block.v.bits, [&]<int bits>() SIMD {
                all ? unpack_values<bits, true>(block, s, t0)
                    : unpack_values<bits, false>(block, s, t0);
            });
        }
        attend_tile_rows(block, s, t0);
        advance_prefetch(block, s.next);
    }
    for (int r = 0; r < block.count; r += lane_count) {
        merge_rows(block, s, r, block.count - r < lane_count ? block.count - r : lane_count);
    }
}
