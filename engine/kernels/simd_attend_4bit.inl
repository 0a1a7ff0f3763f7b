// Attention over one packed frame of 4 bits. See simd_elements.inl for how this is used.
// 64 tokens of keys and values are unpacked once for all query rows: keys with the token as lane,
// values with 4 tokens in one word, so that both products are integer ones. A few rows at a time
// then go from scores to weights to their part of the output without leaving L1.

// A phase keeps its sums in registers; inlined into one function they would spill each other.
#define SIMD_PHASE SIMD __attribute__((noinline))

constexpr int tile_tokens = attention_value_tokens;
constexpr int tile_lanes = tile_tokens / lane_count;  // registers of one row's scores
constexpr index tile_bytes = 4 * tile_tokens;         // a word for each token or element of a group
constexpr index tile_words = group_size / 4;          // of a token's group; quads of tokens

/// Where the parts of the scratch lie, as attention_scratch_floats counts them.
struct level_parts {
    std::int8_t* q;      // [count][k.dim], in the order of the keys
    float* q_scales;     // [count][k groups], for scores to base 2
    float* q_sums;       // the same
    float* peaks;        // [count] of the frame so far, whole numbers
    float* sums;         // [count][16] of p
    float* centres;      // [count][v groups][16] of p * centre
    float* out;          // [count][v.dim], in the order that value_order undoes
    std::byte* keys;     // [k groups][16][64 tokens][4]
    float* key_scales;   // [k groups][64], then biases alike
    std::byte* values;   // [v groups][16 quads][64][4 tokens]
    float* value_sizes;  // [v groups][64]: |scale|, then centres alike
    std::uint8_t* flips;  // [v groups][64]: all ones where a scale is negative
    int begin, end;       // tokens that any row sees
};

SIMD level_parts divide_level_scratch(const attention_block& block) {
    const index rows = block.count, k_groups = block.k.dim / group_size;
    const index v_groups = block.v.dim / group_size;
    float* next = block.scratch;
    const auto take = [&next](index floats) {
        float* part = next;
        next += (floats + lane_count - 1) / lane_count * lane_count;
        return part;
    };
    level_parts s{};
    s.q = reinterpret_cast<std::int8_t*>(take(rows * block.k.dim / 4));
    s.q_scales = take(rows * k_groups);
    s.q_sums = take(rows * k_groups);
    s.peaks = take(rows);
    s.sums = take(rows * lane_count);
    s.centres = take(rows * v_groups * lane_count);
    s.out = take(rows * block.v.dim);
    s.keys = reinterpret_cast<std::byte*>(take(tile_lanes * lane_count * block.k.dim / 4));
    s.key_scales = take(2 * k_groups * tile_tokens);
    s.values = reinterpret_cast<std::byte*>(take(tile_lanes * lane_count * block.v.dim / 4));
    s.value_sizes = take(2 * v_groups * tile_tokens);
    s.flips = reinterpret_cast<std::uint8_t*>(take(v_groups * tile_tokens / 4));
    const token_range seen = seen_tokens(block);
    s.begin = seen.begin;
    s.end = seen.end;
    return s;
}

/// Queries in the byte order of the key tile: each 8 elements as 0 2 4 6 1 3 5 7, because the even
/// elements of a packed word are its low nibbles. Their scales and sums for scores to base 2.
SIMD void prepare_queries(const attention_block& block, const level_parts& s) {
    const index bytes = static_cast<index>(block.count) * block.k.dim;
    const __m128i evens_first = _mm_setr_epi8(0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15);
    for (index i = 0; i < bytes; i += 16) {
        const __m128i x = _mm_loadu_si128(reinterpret_cast<const __m128i*>(block.q.q + i));
        _mm_storeu_si128(reinterpret_cast<__m128i*>(s.q + i), _mm_shuffle_epi8(x, evens_first));
    }
    const v16 scale = set1(block.scale * exp_log2e);
    const index groups = bytes / group_size;
    for (index i = 0; i < groups; i += lane_count) {
        const int lanes = lanes_left(groups, i);
        store_first(s.q_scales + i, lanes, mul(load_first(block.q.scales + i, lanes), scale));
        store_first(s.q_sums + i, lanes, mul(load_first(block.q.sums + i, lanes), scale));
    }
}

/// Scales and biases of the keys of the 64 tokens from t0.
SIMD void widen_key_scales(const attention_block& block, const level_parts& s, int t0) {
    const kv_rows& k = block.k;
    const int groups = k.dim / group_size;
    for (int i = 0; i < tile_lanes; ++i) {
        const int t = t0 + i * lane_count;
        float* to = s.key_scales + i * lane_count;
        tile_scales(k.scales, groups, k.row_scales, t, block.tokens, to, tile_tokens);
        tile_scales(k.biases, groups, k.row_scales, t, block.tokens, to + groups * tile_tokens,
                    tile_tokens);
    }
}

/// Keys of the 64 tokens from t0.
SIMD void unpack_keys(const attention_block& block, const level_parts& s, int t0) {
    for (int i = 0; i < tile_lanes; ++i) {
        const int t = t0 + i * lane_count;
        std::byte* out = s.keys + i * 64;
        for (index g = 0; g < block.k.dim / group_size; ++g) {
            i16 words[8];
            transpose_keys<false>(block.k, t, block.tokens, g * (group_size / 2), words);
#pragma GCC unroll 8
            for (int j = 0; j < 8; ++j, out += 2 * tile_bytes) {
                store_words(out, low_nibbles(words[j]));
                store_words(out + tile_bytes, high_nibbles(words[j]));
            }
        }
    }
}

/// |scale|, centre and sign of the values of the 64 tokens from t0; 0 outside [s.begin, s.end).
SIMD void split_value_scales(const attention_block& block, const level_parts& s, int t0) {
    const kv_rows& v = block.v;
    const int groups = v.dim / group_size;
    const v16 zero = set1(0.0f);
    for (int i = 0; i < tile_lanes; ++i) {
        const int t = t0 + i * lane_count, from = s.begin - t, to = s.end - t;
        float* sizes = s.value_sizes + i * lane_count;
        float* centres = sizes + groups * tile_tokens;
        tile_scales(v.scales, groups, v.row_scales, t, block.tokens, sizes, tile_tokens);
        tile_scales(v.biases, groups, v.row_scales, t, block.tokens, centres, tile_tokens);
        for (index g = 0; g < groups; ++g, sizes += tile_tokens, centres += tile_tokens) {
            const v16 scale = keep(load(sizes), from, to, zero);
            const v16 bias = keep(load(centres), from, to, zero);
            store(sizes, abs(scale));
            store(centres, fma(scale, where_less(scale, zero, set1(7.0f), set1(8.0f)), bias));
            store_low_bytes(s.flips + g * tile_tokens + i * lane_count, less_words(scale, zero));
        }
    }
}

/// Values of `group` of the 4 tokens from t, which are quad `quad` of a tile, as quad_values.
SIMD_INLINE void load_quad(const kv_rows& v, const level_parts& s, int t, int quad, index group,
                           i16 (&words)[tile_lanes]) {
    const std::byte* rows = v.rows + group * (group_size / 2);
    const auto row_bytes = static_cast<index>(v.row_bytes);
    const std::uint8_t* flips = s.flips + group * tile_tokens + 4 * quad;
    if (t >= s.begin && t + 4 <= s.end) {
        const std::byte* first = rows + t * row_bytes;
        quad_values(first, first + row_bytes, first + 2 * row_bytes, first + 3 * row_bytes, flips,
                    words);
        return;
    }
    // Unseen tokens have weight 0, so any row that can be read will do.
    const auto any = [&](int token) {
        return rows + (token < s.begin ? s.begin : token < s.end ? token : s.end - 1) * row_bytes;
    };
    quad_values(any(t), any(t + 1), any(t + 2), any(t + 3), flips, words);
}

/// Values of the 64 tokens from t0, 4 tokens to a word.
SIMD void unpack_values(const attention_block& block, const level_parts& s, int t0) {
    for (index g = 0; g < block.v.dim / group_size; ++g) {
        std::byte* out = s.values + g * tile_words * tile_bytes;
        for (int quad = 0; quad < tile_words; ++quad, out += tile_bytes) {
            i16 words[tile_lanes];
            load_quad(block.v, s, t0 + 4 * quad, quad, g, words);
#pragma GCC unroll 4
            for (int i = 0; i < tile_lanes; ++i) {
                store_words(out + i * 64, words[i]);
            }
        }
    }
}

/// x[m, lanes] = scores to base 2 of the rows from r and 16 tokens, once `group` is added. `dots`:
/// the products of this group, a register for each row.
template <int rows>
SIMD_INLINE void add_scores(const attention_block& block, const level_parts& s, int r, index group,
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

/// x[m] = scores to base 2 of row r + m. Shape: x [rows][64].
template <int rows>
SIMD_PHASE void score_tile_rows(const attention_block& block, const level_parts& s, int r,
                                float* x) {
    const index groups = block.k.dim / group_size;
    const std::int8_t* q = s.q + static_cast<index>(r) * block.k.dim;
    for (index g = 0; g < groups; ++g, q += group_size) {
        for (int k = 0; k < tile_lanes; k += level_vectors) {
            const std::byte* keys = s.keys + g * tile_words * tile_bytes + k * 64;
            dot_sum<true> dots[rows][level_vectors];
#pragma GCC unroll 8
            for (int m = 0; m < rows; ++m) {
#pragma GCC unroll 4
                for (int i = 0; i < level_vectors; ++i) {
                    clear(dots[m][i]);
                }
            }
#pragma GCC unroll 16
            for (int j = 0; j < tile_words; ++j) {
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
                        if (j % 8 == 7) {
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
                    sums[m] = dots[m][i].words;
                }
                add_scores<rows>(block, s, r, g, k + i, sums, x);
            }
        }
    }
}

/// The same of few rows, from the packed keys.
template <int rows>
SIMD_PHASE void score_packed(const attention_block& block, const level_parts& s, int r, int t0,
                             float* x) {
    for (int lanes = 0; lanes < tile_lanes; ++lanes) {
        const int t = t0 + lanes * lane_count;
        for (index g = 0; g < block.k.dim / group_size; ++g) {
            const std::int8_t* q = s.q + static_cast<index>(r) * block.k.dim + g * group_size;
            i16 words[8];
            transpose_keys<false>(block.k, t, block.tokens, g * (group_size / 2), words);
            dot_sum<true> dots[rows];
#pragma GCC unroll 4
            for (int m = 0; m < rows; ++m) {
                clear(dots[m]);
            }
#pragma GCC unroll 8
            for (int j = 0; j < 8; ++j) {
                const i16 low = low_nibbles(words[j]), high = high_nibbles(words[j]);
#pragma GCC unroll 4
                for (int m = 0; m < rows; ++m) {
                    add_products(dots[m], low, set1_word(q + m * block.k.dim + 8 * j));
                    add_products(dots[m], high, set1_word(q + m * block.k.dim + 8 * j + 4));
                    if (j % 4 == 3) {
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

/// Some rows of a tile: rows [r, ...) of the block, which all see something of it. Where they do
/// not all see the whole tile, hidden tokens are masked.
struct tile_rows {
    int r;
    int t0;
    bool whole;
};

/// Lanes of register i of a tile's row that the row sees; the others become `hidden`.
SIMD_INLINE v16 keep_seen(const attention_block& block, const tile_rows& t, int m, int i, v16 x,
                          float hidden) {
    if (t.whole) {
        return x;
    }
    const int first = t.t0 + i * lane_count;
    return keep(x, block.begin[t.r + m] - first, block.end[t.r + m] - first, set1(hidden));
}

/// Raises the rows' peaks to cover the scores x, and scales down what was summed below the old
/// ones. `peaks`: the new ones, [rows].
template <int rows>
SIMD_PHASE void raise_peaks(const attention_block& block, const level_parts& s, const tile_rows& t,
                      const float* x, float* peaks) {
    v16 largest_of[8];
#pragma GCC unroll 8
    for (int m = 0; m < 8; ++m) {
        v16 scores[tile_lanes];
#pragma GCC unroll 4
        for (int i = 0; i < tile_lanes && m < rows; ++i) {
            scores[i] = keep_seen(block, t, m, i, load(x + m * tile_tokens + i * lane_count),
                                  -__builtin_inff());
        }
        largest_of[m] =
            m < rows ? max(max(scores[0], scores[1]), max(scores[2], scores[3])) : largest_of[0];
    }
    const v16 old = load_first(s.peaks + t.r, rows);
    // + 0 makes a 0 positive.
    const v16 peak = max(old, add(ceil(largest_each(largest_of)), set1(0.0f)));
    store(peaks, peak);
    if (!any_less(old, peak, rows)) {
        return;
    }
    store_first(s.peaks + t.r, rows, peak);
    float factors[lane_count];
    store(factors, exp2_not_above_0(sub(old, peak)));
    const auto rescale = [](float* row, index floats, v16 factor) SIMD {
        for (index i = 0; i < floats; i += lane_count) {
            store(row + i, mul(load(row + i), factor));
        }
    };
    const index groups = block.v.dim / group_size;
    for (int m = 0; m < rows; ++m) {
        const index r = t.r + m;
        const v16 factor = set1(factors[m]);
        rescale(s.sums + r * lane_count, lane_count, factor);
        rescale(s.centres + r * groups * lane_count, groups * lane_count, factor);
        rescale(s.out + r * block.v.dim, block.v.dim, factor);
    }
}

/// p of one row and tile -> weights w of the values of `group`, [64]; p * centre is added up.
/// Returns: lanes whose largest is that of w.
SIMD_INLINE v16 weigh_group(const level_parts& s, index row, index group, index groups,
                            const v16 (&p)[tile_lanes], float* w) {
    const float* sizes = s.value_sizes + group * tile_tokens;
    const float* centres = sizes + groups * tile_tokens;
    float* to = s.centres + (row * groups + group) * lane_count;
    v16 centre = load(to), peak = set1(0.0f);
#pragma GCC unroll 4
    for (int i = 0; i < tile_lanes; ++i) {
        centre = fma(p[i], load(centres + i * lane_count), centre);
        const v16 weight = mul(p[i], load(sizes + i * lane_count));
        store(w + i * lane_count, weight);
        peak = i == 0 ? weight : max(peak, weight);
    }
    store(to, centre);
    return peak;
}

/// w of the rows -> levels, and what a level stands for. Shape: w [rows][64], levels [rows][64] in
/// the order of pack_levels.
template <int rows>
SIMD void round_weights(v16 (&peaks)[8], const float* w, std::uint8_t* levels, float* units) {
#pragma GCC unroll 8
    for (int m = rows; m < 8; ++m) {
        peaks[m] = peaks[0];
    }
    const v16 peak = largest_each(peaks), least = set1(1e-30f), zero = set1(0.0f);
    store(units, where_less(peak, least, zero, div(peak, set1(255.0f / value_unit))));
    float inverses[lane_count];
    store(inverses, where_less(peak, least, zero, div(set1(255.0f), peak)));
#pragma GCC unroll 8
    for (int m = 0; m < rows; ++m) {
        i16 level[tile_lanes];
#pragma GCC unroll 4
        for (int i = 0; i < tile_lanes; ++i) {
            const v16 weight = load(w + m * tile_tokens + i * lane_count);
            level[i] = round_to_words(mul(weight, set1(inverses[m])));
        }
        pack_levels(level, levels + m * tile_tokens);
    }
}

/// Scores x -> p, added to the rows' sums; levels and units for the first group of values. x keeps
/// p where there are more groups.
template <int rows>
SIMD_PHASE void weigh_scores(const attention_block& block, const level_parts& s,
                             const tile_rows& t, const float* peaks, float* x,
                             std::uint8_t* levels, float* units) {
    const index groups = block.v.dim / group_size;
    alignas(64) float w[rows * tile_tokens];
    v16 largest_of[8];
#pragma GCC unroll 8
    for (int m = 0; m < rows; ++m) {
        float* to = s.sums + (t.r + m) * lane_count;
        v16 sum = load(to);
        v16 p[tile_lanes];
#pragma GCC unroll 4
        for (int i = 0; i < tile_lanes; ++i) {
            float* at = x + m * tile_tokens + i * lane_count;
            p[i] = exp2_not_above_0(sub(load(at), set1(peaks[m])));
            p[i] = keep_seen(block, t, m, i, p[i], 0.0f);
            sum = add(sum, p[i]);
            if (groups > 1) {
                store(at, p[i]);
            }
        }
        store(to, sum);
        largest_of[m] = weigh_group(s, t.r + m, 0, groups, p, w + m * tile_tokens);
    }
    round_weights<rows>(largest_of, w, levels, units);
}

/// The same from p for a later group.
template <int rows>
SIMD_PHASE void weigh_again(const attention_block& block, const level_parts& s, const tile_rows& t,
                            index group, const float* p, std::uint8_t* levels, float* units) {
    alignas(64) float w[rows * tile_tokens];
    v16 largest_of[8];
#pragma GCC unroll 8
    for (int m = 0; m < rows; ++m) {
        v16 weights[tile_lanes];
#pragma GCC unroll 4
        for (int i = 0; i < tile_lanes; ++i) {
            weights[i] = load(p + m * tile_tokens + i * lane_count);
        }
        largest_of[m] = weigh_group(s, t.r + m, group, block.v.dim / group_size, weights,
                                    w + m * tile_tokens);
    }
    round_weights<rows>(largest_of, w, levels, units);
}

/// out[r + m] += unit[m] * Σ levels[m, t] * values[t] of `group`.
template <int rows>
SIMD_PHASE void weigh_levels(const attention_block& block, const level_parts& s, const tile_rows& t,
                       index group, const std::uint8_t* levels, const float* units) {
    float* out = s.out + static_cast<index>(t.r) * block.v.dim + group * group_size;
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
            const index quad = word % 4 * 4 + word / 4;  // the order of pack_levels
            i16 v[level_vectors];
#pragma GCC unroll 4
            for (int i = 0; i < level_vectors; ++i) {
                v[i] = load_words(values + quad * tile_bytes + i * 64);
            }
#pragma GCC unroll 8
            for (int m = 0; m < rows; ++m) {
                const i16 level = set1_word(levels + m * tile_tokens + 4 * word);
#pragma GCC unroll 4
                for (int i = 0; i < level_vectors; ++i) {
                    add_products(dots[m][i], level, v[i]);
                    if (word % 8 == 7) {
                        carry(dots[m][i]);
                    }
                }
            }
        }
#pragma GCC unroll 8
        for (int m = 0; m < rows; ++m) {
#pragma GCC unroll 4
            for (int i = 0; i < level_vectors; ++i) {
                float* to = out + m * block.v.dim + (k + i) * lane_count;
                store(to, fma(set1(units[m]), to_floats(dots[m][i].words), load(to)));
            }
        }
    }
}

/// The same of few rows, from the packed values.
template <int rows>
SIMD_PHASE void weigh_packed_levels(const attention_block& block, const level_parts& s,
                                    const tile_rows& t, index group, const std::uint8_t* levels,
                                    const float* units) {
    dot_sum<true> dots[rows][tile_lanes];
#pragma GCC unroll 4
    for (int m = 0; m < rows; ++m) {
#pragma GCC unroll 4
        for (int i = 0; i < tile_lanes; ++i) {
            clear(dots[m][i]);
        }
    }
#pragma GCC unroll 4
    for (int quad = 0; quad < tile_words; ++quad) {
        const index word = quad % 4 * 4 + quad / 4;  // the order of pack_levels
        i16 v[tile_lanes];
        load_quad(block.v, s, t.t0 + 4 * quad, quad, group, v);
#pragma GCC unroll 4
        for (int m = 0; m < rows; ++m) {
            const i16 level = set1_word(levels + m * tile_tokens + 4 * word);
#pragma GCC unroll 4
            for (int i = 0; i < tile_lanes; ++i) {
                add_products(dots[m][i], level, v[i]);
                carry(dots[m][i]);
            }
        }
    }
    float* out = s.out + static_cast<index>(t.r) * block.v.dim + group * group_size;
#pragma GCC unroll 4
    for (int m = 0; m < rows; ++m) {
#pragma GCC unroll 4
        for (int i = 0; i < tile_lanes; ++i) {
            float* to = out + m * block.v.dim + i * lane_count;
            store(to, fma(set1(units[m]), to_floats(dots[m][i].words), load(to)));
        }
    }
}

template <int rows, bool packed>
SIMD void attend_tile(const attention_block& block, const level_parts& s, const tile_rows& t) {
    alignas(64) float x[rows * tile_tokens];
    alignas(64) std::uint8_t levels[rows * tile_tokens];
    float peaks[lane_count], units[lane_count];
    const auto add_values = [&](index group) SIMD {
        if constexpr (packed) {
            weigh_packed_levels<rows>(block, s, t, group, levels, units);
        } else {
            weigh_levels<rows>(block, s, t, group, levels, units);
        }
    };
    if constexpr (packed) {
        score_packed<rows>(block, s, t.r, t.t0, x);
    } else {
        score_tile_rows<rows>(block, s, t.r, x);
    }
    raise_peaks<rows>(block, s, t, x, peaks);
    weigh_scores<rows>(block, s, t, peaks, x, levels, units);
    add_values(0);
    for (index g = 1; g < block.v.dim / group_size; ++g) {
        weigh_again<rows>(block, s, t, g, x, levels, units);
        add_values(g);
    }
}

template <int rows, bool packed>
SIMD_INLINE void attend_tile_of(const attention_block& block, const level_parts& s,
                                const tile_rows& t, int count) {
    if constexpr (rows > 0) {
        if (count == rows) {
            attend_tile<rows, packed>(block, s, t);
        } else {
            attend_tile_of<rows - 1, packed>(block, s, t, count);
        }
    }
}

/// All rows against the 64 tokens from t0, as many at a time as see something of them.
SIMD void attend_tile_rows(const attention_block& block, const level_parts& s, int t0) {
    const int t1 = t0 + tile_tokens;
    const auto sees = [&block, t0, t1](int r) {
        return block.begin[r] < t1 && block.end[r] > t0 && block.begin[r] < block.end[r];
    };
    for (int r = 0; r < block.count;) {
        int count = 0;
        bool whole = true;
        for (; count < level_rows_max && r + count < block.count && sees(r + count); ++count) {
            whole = whole && block.begin[r + count] <= t0 && block.end[r + count] >= t1;
        }
        if (block.count <= packed_rows_max) {
            attend_tile_of<packed_rows_max, true>(block, s, {r, t0, whole}, count);
        } else {
            attend_tile_of<level_rows_max, false>(block, s, {r, t0, whole}, count);
        }
        r += count > 0 ? count : 1;
    }
}

SIMD_INLINE void ask_for(const void* from, index bytes) {
    for (index i = 0; i < bytes; i += 64) {
        __builtin_prefetch(static_cast<const std::byte*>(from) + i);
    }
}

/// Asks memory early for what few rows would wait for: `tokens` keys or values from t0.
SIMD_INLINE void ask_for_tokens(const kv_rows& rows, int t0, int tokens) {
    const auto row_bytes = static_cast<index>(rows.row_bytes);
    ask_for(rows.rows + t0 * row_bytes, tokens * row_bytes);
}

/// And all scales of a frame.
SIMD_INLINE void ask_for_scales(const kv_rows& rows, int tokens) {
    const index bytes = static_cast<index>(tokens) * rows.row_scales * 2;
    ask_for(rows.scales, bytes);
    ask_for(rows.biases, bytes);
}

/// Asks for what comes after the tile at t0: the next tile of this frame, or the first of the next.
SIMD void ask_ahead(const attention_block& block, const level_parts& s, int t0) {
    const int next = t0 + tile_tokens;
    if (next < s.end) {
        const int tokens = s.end - next < tile_tokens ? s.end - next : tile_tokens;
        ask_for_tokens(block.k, next, tokens);
        ask_for_tokens(block.v, next, tokens);
    } else if (block.next_k.rows != nullptr) {
        ask_for_tokens(block.next_k, 0, tile_tokens);
        ask_for_tokens(block.next_v, 0, tile_tokens);
    }
    if (t0 <= s.begin && block.next_k.rows != nullptr) {
        ask_for_scales(block.next_k, block.tokens);
        ask_for_scales(block.next_v, block.tokens);
    }
}

/// The frame's results of up to 16 rows from r, merged into the rows' states as merge_softmax does.
SIMD void merge_rows(const attention_block& block, const level_parts& s, int r, int count) {
    const index groups = block.v.dim / group_size;
    float peaks[lane_count] = {}, sums[lane_count] = {}, new_sums[lane_count] = {};
    for (int m = 0; m < count; ++m) {
        peaks[m] = block.state[r + m].max;
        sums[m] = block.state[r + m].sum;
        new_sums[m] = fold(load(s.sums + (r + m) * lane_count));
    }
    const v16 old_peak = load(peaks);
    const v16 new_peak = mul(load_first(s.peaks + r, count), set1(exp_ln2));
    const v16 peak = max(old_peak, new_peak);
    const v16 a = exp_not_above_0(sub(old_peak, peak));
    const v16 b = exp_not_above_0(sub(new_peak, peak));
    float old_factors[lane_count], new_factors[lane_count];
    store(peaks, peak);
    store(sums, fma(load(sums), a, mul(load(new_sums), b)));
    store(old_factors, a);
    store(new_factors, b);
    for (int m = 0; m < count; ++m) {
        const index row = r + m;
        if (block.begin[row] >= block.end[row]) {
            continue;
        }
        block.state[row] = {peaks[m], sums[m]};
        for (index g = 0; g < groups; ++g) {
            const index at = row * block.v.dim + g * group_size;
            const v16 base = set1(fold(load(s.centres + (row * groups + g) * lane_count)));
            v16 x[tile_lanes];
            value_order(s.out + at, x);
#pragma GCC unroll 4
            for (int i = 0; i < tile_lanes; ++i) {
                float* to = block.out + at + i * lane_count;
                const v16 added = mul(add(x[i], base), set1(new_factors[m]));
                store(to, fma(load(to), set1(old_factors[m]), added));
            }
        }
    }
}

SIMD void attend_4bit(const attention_block& block) {
    const level_parts s = divide_level_scratch(block);
    if (s.begin >= s.end) {
        return;
    }
    const index groups = block.v.dim / group_size, dim = block.v.dim;
    prepare_queries(block, s);
    const auto fill = [](float* from, index floats, float value) SIMD {
        for (index i = 0; i < floats; i += lane_count) {
            store_first(from + i, lanes_left(floats, i), set1(value));
        }
    };
    fill(s.peaks, block.count, -__builtin_inff());
    fill(s.sums, block.count * lane_count, 0.0f);
    fill(s.centres, block.count * groups * lane_count, 0.0f);
    fill(s.out, block.count * dim, 0.0f);
    for (int t0 = s.begin / tile_tokens * tile_tokens; t0 < s.end; t0 += tile_tokens) {
        ask_ahead(block, s, t0);
        widen_key_scales(block, s, t0);
        split_value_scales(block, s, t0);
        if (block.count > packed_rows_max) {
            unpack_keys(block, s, t0);
            unpack_values(block, s, t0);
        }
        attend_tile_rows(block, s, t0);
    }
    for (int r = 0; r < block.count; r += lane_count) {
        merge_rows(block, s, r, block.count - r < lane_count ? block.count - r : lane_count);
    }
}
