// SPDX-License-Identifier: Apache-2.0
// Attention by tiles: the two integer products, Q·K of queries and keys and P·V of weights and
// values. Numbers in parentheses are formulas of ARITHMETIC.md.

/// Words of a register tile's product from one step of the prefetch to the next.
constexpr int words_per_prefetch = tile_words * tile_lanes / level_vectors / prefetch_steps;

/// (2) for one group: adds to the scores x[m] of the rows from r and 16 tokens. `dots`: idot of
/// (1), a register for each row.
template <int rows>
SIMD_INLINE void add_scores(const attention_block& block, const tile_parts& s, int r, index group,
                            int lanes, const i16 (&dots)[rows], float* x) {
    const index groups = block.k.dim / group_size;
    const float* q_scales = s.q_scales + r * groups + group;
    const float* q_sums = s.q_sums + r * groups + group;
    const float* scales = s.key_scales + group * tile_tokens + lanes * lane_count;
    const v16 scale = load(scales), bias = load(scales + groups * tile_tokens);
#pragma GCC unroll 8
    for (int m = 0; m < rows; ++m) {
        float* to = x + m * tile_tokens + lanes * lane_count;
        const v16 sum = group == 0 ? set1(0.0f) : load(to);
        const v16 with_bias = fma(bias, set1(q_sums[m * groups]), sum);
        const v16 both = mul(scale, set1(q_scales[m * groups]));
        store(to, fma(both, to_floats(dots[m]), with_bias));
    }
}

/// Q·K from the unpacked keys: x[m] = scores to base 2 of row r + m. Shape: x [rows][64]. steps: as
/// carry_steps gives them.
template <int rows, int steps>
SIMD_PHASE void qk_tile(const attention_block& block, const tile_parts& s, int r, float* x) {
    const index groups = block.k.dim / group_size;
    const std::int8_t* q = s.q + static_cast<index>(r) * block.k.dim;
    for (index g = 0; g < groups; ++g, q += group_size) {
        for (int k = 0; k < tile_lanes; k += level_vectors) {
            const std::byte* keys = s.keys + g * tile_words * tile_bytes + k * 64;
            dot_sum<steps != 0> dots[rows][level_vectors];
#pragma GCC unroll 8
            for (int m = 0; m < rows; ++m) {
#pragma GCC unroll 4
                for (int i = 0; i < level_vectors; ++i) {
                    clear(dots[m][i]);
                }
            }
#pragma GCC unroll 16
            for (int j = 0; j < tile_words; ++j) {
                if (j % words_per_prefetch == 0) {
                    prefetch_keys<false>(s.next, r,
                                         g * prefetch_steps + 2 * k + j / words_per_prefetch);
                }
                i16 key[level_vectors];
#pragma GCC unroll 4
                for (int i = 0; i < level_vectors; ++i) {
                    key[i] = load_words(keys + j * tile_bytes + i * 64);
                }
#pragma GCC unroll 8
                for (int m = 0; m < rows; ++m) {
                    const i16 query = set1_word(q + m * block.k.dim + 4 * j);
#pragma GCC unroll 4
                    for (int i = 0; i < level_vectors; ++i) {
                        add_products(dots[m][i], key[i], query);
                        if (steps != 0 && (j + 1) % steps == 0) {
                            carry(dots[m][i]);
                        }
                    }
                }
            }
#pragma GCC unroll 4
            for (int i = 0; i < level_vectors; ++i) {
                i16 sums[rows];
#pragma GCC unroll 8
                for (int m = 0; m < rows; ++m) {
                    sums[m] = materialized(dots[m][i]);
                }
                add_scores<rows>(block, s, r, g, k + i, sums, x);
            }
        }
    }
}

/// Q·K of few rows, from the packed keys.
template <int rows, int bits>
SIMD_PHASE void qk_packed(const attention_block& block, const tile_parts& s, int r, int t0,
                          float* x) {
    const index groups = block.k.dim / group_size;
    for (int lanes = 0; lanes < tile_lanes; ++lanes) {
        const int t = t0 + lanes * lane_count;
        for (index g = 0; g < groups; ++g) {
            const std::int8_t* q = s.q + static_cast<index>(r) * block.k.dim + g * group_size;
            key_words<bits> words;
            load_key_words<bits>(block.k, t, block.tokens, g, words);
            constexpr int steps = carry_steps(bits);
            constexpr int steps_at_once = bits < 7 ? 2 : 1;
            constexpr int half_words = static_cast<int>(tile_words) / 2 * steps_at_once;
            dot_sum<steps != 0> dots[rows];
#pragma GCC unroll 4
            for (int m = 0; m < rows; ++m) {
                clear(dots[m]);
            }
#pragma GCC unroll 16
            for (int quad = 0; quad < tile_words; ++quad) {
                if (quad % half_words == 0) {
                    const index step = 2 * (lanes * groups + g) + quad / half_words;
                    prefetch_keys<true>(s.next, r, step, steps_at_once);
                }
                const i16 key = key_quad<bits>(words, quad);
#pragma GCC unroll 4
                for (int m = 0; m < rows; ++m) {
                    add_products(dots[m], key, set1_word(q + m * block.k.dim + 4 * quad));
                    if (steps != 0 && (quad + 1) % steps == 0) {
                        carry(dots[m]);
                    }
                }
            }
            i16 sums[rows];
#pragma GCC unroll 4
            for (int m = 0; m < rows; ++m) {
                sums[m] = dots[m].words;
            }
            add_scores<rows>(block, s, r, g, lanes, sums, x);
        }
    }
}

/// P·V from the unpacked values, (16): out[r + m] += factor[m] * unit * Σ levels[m, t] * values[t]
/// of `group`. steps: as carry_steps gives them.
template <int rows, int steps>
SIMD_PHASE void pv_tile(const attention_block& block, const tile_parts& s, const strip_rows& strip,
                        index group) {
    float* out = s.out + static_cast<index>(strip.r) * block.v.dim + group * group_size;
    const v16 unit = set1(strip.values->size_units[group] * value_unit(block.v.bits));
    for (int k = 0; k < tile_lanes; k += level_vectors) {
        const std::byte* values = s.values + group * tile_words * tile_bytes + k * 64;
        dot_sum<true> dots[rows][level_vectors];
#pragma GCC unroll 8
        for (int m = 0; m < rows; ++m) {
#pragma GCC unroll 4
            for (int i = 0; i < level_vectors; ++i) {
                clear(dots[m][i]);
            }
        }
#pragma GCC unroll 16
        for (int word = 0; word < tile_words; ++word) {
            if (word % words_per_prefetch == 0) {
                prefetch_values<false>(s.next, strip.r,
                                       group * prefetch_steps + 2 * k + word / words_per_prefetch);
            }
            const index quad = word % 4 * 4 + word / 4;  // the order of pack_bytes
            i16 v[level_vectors];
#pragma GCC unroll 4
            for (int i = 0; i < level_vectors; ++i) {
                v[i] = load_words(values + quad * tile_bytes + i * 64);
            }
#pragma GCC unroll 8
            for (int m = 0; m < rows; ++m) {
                const i16 level = set1_word(strip.levels + m * tile_tokens + 4 * word);
#pragma GCC unroll 4
                for (int i = 0; i < level_vectors; ++i) {
                    add_products(dots[m][i], level, v[i]);
                    if ((word + 1) % steps == 0) {
                        carry(dots[m][i]);
                    }
                }
            }
        }
#pragma GCC unroll 8
        for (int m = 0; m < rows; ++m) {
            const v16 row_unit = mul(set1(strip.factors[m]), unit);
#pragma GCC unroll 4
            for (int i = 0; i < level_vectors; ++i) {
                float* to = out + m * block.v.dim + (k + i) * lane_count;
                store(to, fma(row_unit, to_floats(dots[m][i].words), load(to)));
            }
        }
    }
}

/// P·V of few rows, from the packed values.
template <int rows, int bits>
SIMD_PHASE void pv_packed(const attention_block& block, const tile_parts& s,
                          const strip_rows& strip, index group) {
    dot_sum<true> dots[rows][tile_lanes];
#pragma GCC unroll 4
    for (int m = 0; m < rows; ++m) {
#pragma GCC unroll 4
        for (int i = 0; i < tile_lanes; ++i) {
            clear(dots[m][i]);
        }
    }
    const bool all = sees_tile(s, strip.t0);
    for (int part = 0; part < tile_lanes; ++part) {
        prefetch_values<true>(s.next, strip.r, group * prefetch_steps + 2 * part, 2);
#pragma GCC unroll 4
        for (int i = 0; i < 4; ++i) {
            const int quad = 4 * part + i, word = 4 * i + part;  // the order of pack_bytes
            i16 v[tile_lanes];
            load_quad<bits>(block.v, s, strip.t0 + 4 * quad, quad, group, all, v);
#pragma GCC unroll 4
            for (int m = 0; m < rows; ++m) {
                const i16 level = set1_word(strip.levels + m * tile_tokens + 4 * word);
#pragma GCC unroll 4
                for (int j = 0; j < tile_lanes; ++j) {
                    add_products(dots[m][j], level, v[j]);
                    carry(dots[m][j]);
                }
            }
        }
    }
    float* out = s.out + static_cast<index>(strip.r) * block.v.dim + group * group_size;
    const v16 unit = set1(strip.values->size_units[group] * value_unit(bits));
#pragma GCC unroll 4
    for (int m = 0; m < rows; ++m) {
        const v16 row_unit = mul(set1(strip.factors[m]), unit);
#pragma GCC unroll 4
        for (int i = 0; i < tile_lanes; ++i) {
            float* to = out + m * block.v.dim + i * lane_count;
            store(to, fma(row_unit, to_floats(dots[m][i].words), load(to)));
        }
    }
}
