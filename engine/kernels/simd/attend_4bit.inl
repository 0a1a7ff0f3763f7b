// Attention over one packed frame of 4 bits. See elements.inl for how this is used.
// 64 tokens of keys and values are unpacked once for all query rows: keys with the token as lane,
// values with 4 tokens in one word, so that both products are integer ones. A few rows at a time
// then go from scores to weights to their part of the output without leaving L1.

// A phase keeps its sums in registers; inlined into one function they would spill each other.
#define SIMD_PHASE SIMD __attribute__((noinline))

constexpr int tile_tokens = attention_value_tokens;
constexpr int strip_rows_max = 24;                    // rows that go through a tile together
constexpr int tile_lanes = tile_tokens / lane_count;  // registers of one row's scores
constexpr index tile_bytes = 4 * tile_tokens;         // a word for each token or element of a group
constexpr index tile_words = group_size / 4;          // of a token's group; quads of tokens

/// |scale| and centre of a tile's values as integers, in the order of pack_shorts, and what they
/// stand for beside weights of weight_one.
struct fixed_values {
    std::int16_t* sizes;    // [v groups][64]
    std::int16_t* centres;  // the same
    float* size_units;      // [v groups], of a level
    float* centre_units;    // [v groups]
};

/// What a tile asks memory for: as large a part of the next frame as the tile is of this one.
struct asked_rows {
    index first, tokens;      // of the next frame
    const std::byte* keys;    // of `first`
    const std::byte* values;  // the same
    index key_step;           // bytes, with the products of one group and 16 tokens
    index value_step;         // bytes, with those of one group and 16 elements or tokens
    int row;                  // whose products ask: the first that sees the tile; -1: not known yet
};

/// Where the parts of the scratch lie, as attention_scratch_floats counts them.
struct level_parts {
    std::int8_t* q;       // [count][k.dim], in the order of the keys
    float* q_scales;      // [count][k groups], for scores to base 2
    float* q_sums;        // the same
    float* peaks;         // [count] of the frame so far, whole numbers
    float* sums;          // [count][16] of p
    float* centres;       // [count][v groups][16] of p * centre
    float* out;           // [count][v.dim], in the order that value_order undoes
    std::byte* keys;      // [k groups][16][64 tokens][4]
    float* key_scales;    // [k groups][64], then biases alike
    std::byte* values;    // [v groups][16 quads][64][4 tokens]
    float* value_sizes;   // [v groups][64]: |scale|, then centres alike
    std::uint8_t* flips;  // [v groups][64]: all ones where a scale is negative
    fixed_values whole;   // of a tile that a row sees all of
    fixed_values part;    // of the tokens that one row sees
    seen_range seen;
    asked_rows asked;  // of the tile at work
};

SIMD level_parts divide_level_scratch(const attention_block& block) {
    const index rows = block.count, k_groups = block.k.dim / group_size;
    const index v_groups = block.v.dim / group_size;
    float* next = block.scratch;
    // Whole registers, so that the last one of a part is stored without a mask.
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
    const auto take_fixed = [&take, v_groups](fixed_values& values) {
        values.sizes = reinterpret_cast<std::int16_t*>(take(v_groups * tile_tokens / 2));
        values.centres = reinterpret_cast<std::int16_t*>(take(v_groups * tile_tokens / 2));
        values.size_units = take(v_groups);
        values.centre_units = take(v_groups);
    };
    take_fixed(s.whole);
    take_fixed(s.part);
    s.seen = seen_tokens(block);
    return s;
}

/// Whether some row sees each token of the tile at t0.
SIMD_INLINE bool sees_tile(const level_parts& s, int t0) {
    return s.seen.begin <= t0 && s.seen.end >= t0 + tile_tokens;
}

/// Queries in the byte order of the key tile: each 8 elements as 0 2 4 6 1 3 5 7, because the even
/// elements of a packed word are its low nibbles. Their scales and sums for scores to base 2.
SIMD void prepare_queries(const attention_block& block, const level_parts& s) {
    const index bytes = static_cast<index>(block.count) * block.k.dim;
    const __m128i evens_first = _mm_setr_epi8(0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15);
    const std::int8_t* const from = block.q.q;
    std::int8_t* const to = s.q;
    for (index i = 0; i < bytes; i += 16) {
        const __m128i x = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i));
        _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i), _mm_shuffle_epi8(x, evens_first));
    }
    const v16 scale = set1(block.scale * exp_log2e);
    const index groups = bytes / group_size;
    for (index i = 0; i < groups; i += lane_count) {
        const int lanes = lanes_left(groups, i);
        store(s.q_scales + i, mul(load_first(block.q.scales + i, lanes), scale));
        store(s.q_sums + i, mul(load_first(block.q.sums + i, lanes), scale));
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

/// Scales, then biases, of the 64 tokens from t0 as [groups][64] each; tokens past the end repeat
/// the last.
SIMD_PHASE void widen_scales(const kv_rows& rows, int t0, int tokens, float* out) {
    tile_scales<tile_lanes>(rows, t0, tokens, out);
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

/// |scale|, centre and sign of the values of the 64 tokens from t0; 0 where no row sees any.
/// all: some row sees each.
template <bool all>
SIMD_PHASE void split_value_scales(const attention_block& block, const level_parts& s, int t0) {
    const kv_rows& v = block.v;
    const index scales = v.dim / group_size * tile_tokens;
    const v16 zero = set1(0.0f);
    float* centres = s.value_sizes + scales;
    widen_scales(v, t0, block.tokens, s.value_sizes);
    for (index i = 0; i < scales; i += lane_count) {
        v16 scale = load(s.value_sizes + i), bias = load(centres + i);
        if constexpr (!all) {
            const int t = t0 + static_cast<int>(i % tile_tokens);
            scale = keep(scale, s.seen.begin - t, s.seen.end - t, zero);
            bias = keep(bias, s.seen.begin - t, s.seen.end - t, zero);
        }
        store(s.value_sizes + i, abs(scale));
        store(centres + i, fma(scale, where_less(scale, zero, set1(7.0f), set1(8.0f)), bias));
        store_low_bytes(s.flips + i, less_words(scale, zero));
    }
}

/// Values of `group` of the 4 tokens from t, which are quad `quad` of a tile, as quad_values.
SIMD_INLINE void load_quad(const kv_rows& v, const level_parts& s, int t, int quad, index group,
                           i16 (&words)[tile_lanes]) {
    const std::byte* rows = v.rows + group * (group_size / 2);
    const auto row_bytes = static_cast<index>(v.row_bytes);
    const std::uint8_t* flips = s.flips + group * tile_tokens + 4 * quad;
    const int begin = s.seen.begin, end = s.seen.end;
    if (t >= begin && t + 4 <= end) {
        const std::byte* first = rows + t * row_bytes;
        quad_values(first, first + row_bytes, first + 2 * row_bytes, first + 3 * row_bytes, flips,
                    words);
        return;
    }
    // Unseen tokens have weight 0, so any row that can be read will do.
    const auto any = [&](int token) {
        return rows + (token < begin ? begin : token < end ? token : end - 1) * row_bytes;
    };
    quad_values(any(t), any(t + 1), any(t + 2), any(t + 3), flips, words);
}

/// Values of the 64 tokens from t0, 4 tokens to a word.
template <bool all>
SIMD_PHASE void unpack_values(const attention_block& block, const level_parts& s, int t0) {
    const auto row_bytes = static_cast<index>(block.v.row_bytes);
    for (index g = 0; g < block.v.dim / group_size; ++g) {
        const std::byte* row = block.v.rows + t0 * row_bytes + g * (group_size / 2);
        const std::uint8_t* flips = s.flips + g * tile_tokens;
        std::byte* out = s.values + g * tile_words * tile_bytes;
        for (int quad = 0; quad < tile_words; ++quad) {
            i16 words[tile_lanes];
            if constexpr (all) {
                quad_values(row, row + row_bytes, row + 2 * row_bytes, row + 3 * row_bytes, flips,
                            words);
            } else {
                load_quad(block.v, s, t0 + 4 * quad, quad, g, words);
            }
#pragma GCC unroll 4
            for (int i = 0; i < tile_lanes; ++i) {
                store_words(out + i * 64, words[i]);
            }
            row += 4 * row_bytes;
            flips += 4;
            out += tile_bytes;
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
            ask_for_keys<false>(s.asked, r, g * tile_lanes + k);
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
                    sums[m] = settled(dots[m][i]);
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
    const index groups = block.k.dim / group_size;
    for (int lanes = 0; lanes < tile_lanes; ++lanes) {
        const int t = t0 + lanes * lane_count;
        for (index g = 0; g < groups; ++g) {
            const std::int8_t* q = s.q + static_cast<index>(r) * block.k.dim + g * group_size;
            ask_for_keys<true>(s.asked, r, lanes * groups + g);
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

/// `fixed` of the tokens [from, to) of the tile at t0. Requires: they are seen; if all, that they
/// are all of it.
template <bool all>
SIMD_PHASE void fix_values(const attention_block& block, const level_parts& s, int t0, int from,
                           int to, const fixed_values& fixed) {
    const index groups = block.v.dim / group_size;
    // x times what makes the largest |x| become `one`. Returns that |x|.
    const auto fix = [&](const float* x, float one, std::int16_t* out) SIMD {
        v16 kept[tile_lanes];
        v16 most = set1(0.0f);
#pragma GCC unroll 4
        for (int i = 0; i < tile_lanes; ++i) {
            const int first = t0 + i * lane_count;
            kept[i] = load(x + i * lane_count);
            if constexpr (!all) {
                kept[i] = keep(kept[i], from - first, to - first, set1(0.0f));
            }
            most = max(most, abs(kept[i]));
        }
        const float largest_of_all = largest(most);
        const v16 factor = set1(largest_of_all > 0.0f ? one / largest_of_all : 0.0f);
#pragma GCC unroll 2
        for (int i = 0; i < tile_lanes; i += 2) {
            store_words(out + i * lane_count,
                        pack_shorts(round_to_words(mul(kept[i], factor)),
                                    round_to_words(mul(kept[i + 1], factor))));
        }
        return largest_of_all;
    };
    for (index g = 0; g < groups; ++g) {
        const float* sizes = s.value_sizes + g * tile_tokens;
        const float* centres = sizes + groups * tile_tokens;
        const index at = g * tile_tokens;
        fixed.size_units[g] = fix(sizes, weight_one, fixed.sizes + at) * level_size;
        fixed.centre_units[g] = fix(centres, centre_one, fixed.centres + at) * weighed_centre;
    }
}

/// Numbers that weights and levels of every row are made with. Shorts.
struct weight_numbers {
    i16 linear, square, cubic, twice_one, one, level;
};
constexpr std::uint32_t twice_in_word(std::uint32_t x) { return x << 16 | x; }
constexpr std::uint32_t weight_number_words[] = {twice_in_word(weight_coefficients[0]),
                                                 twice_in_word(weight_coefficients[1]),
                                                 twice_in_word(weight_coefficients[2]),
                                                 twice_in_word(2 * weight_one),
                                                 twice_in_word(1),
                                                 twice_in_word(level_one)};
/// weight_number_words, read from where the compiler cannot tell what it reads: constants it makes
/// anew for each use, on the ports that shuffle.
SIMD_INLINE weight_numbers read_weight_numbers() {
    const std::uint32_t* at = weight_number_words;
    __asm__("" : "+r"(at));
    return {set1_word(at),     set1_word(at + 1), set1_word(at + 2),
            set1_word(at + 3), set1_word(at + 4), set1_word(at + 5)};
}

/// 2^(-a / weight_steps) in units of 1 / weight_one. Shorts.
SIMD_INLINE i16 exp2_shorts(const weight_numbers& numbers, i16 a) {
    const i16 fraction = shift_left_shorts<16 - weight_step_bits>(a);
    i16 h = multiply_high(numbers.cubic, fraction);
    h = multiply_high(sub_shorts(numbers.square, h), fraction);
    h = multiply_high(sub_shorts(numbers.linear, h), fraction);
    const i16 twice = sub_shorts(numbers.twice_one, h);
    return average_shorts(shift_right_each(twice, shift_right_shorts<weight_step_bits>(a)),
                          zero_words());
}

/// Some rows of a strip: what they go through the tile at t0 with.
struct strip_rows {
    int r, t0;
    const fixed_values* values;
    const float* x;        // [rows][64] scores to base 2
    std::int16_t* p;       // [rows][64] weights
    std::uint8_t* levels;  // [rows][64] of one group, in the order of pack_bytes
    float* factors;        // [rows] 2^(highest score - peak)
};

/// What the rows of a strip need of the values of one group, and where their first row's results
/// go.
struct weighed_group {
    const std::int16_t *sizes, *centres;  // [64], in the order of pack_shorts
    v16 centre_unit;
    float* sums;           // [16] of p * centre
    index sums_step;       // floats, from row to row
    std::uint8_t* levels;  // [rows][64]
};
SIMD_INLINE weighed_group make_weighed_group(const level_parts& s, const strip_rows& strip,
                                             index group, index groups) {
    const fixed_values& fixed = *strip.values;
    return {fixed.sizes + group * tile_tokens,
            fixed.centres + group * tile_tokens,
            set1(fixed.centre_units[group]),
            s.centres + (strip.r * groups + group) * lane_count,
            groups * lane_count,
            strip.levels};
}

/// Levels of row m of a strip, and the sum of its weights p times centres.
SIMD_INLINE void weigh_group(const weight_numbers& numbers, const weighed_group& group, index m,
                             const i16 (&p)[2], v16 factor) {
    i16 sum = zero_words(), level[2];
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {
        sum = add_pairs(sum, p[i], load_words(group.centres + i * 2 * lane_count));
        const i16 weight = multiply_rounded(p[i], load_words(group.sizes + i * 2 * lane_count));
        level[i] = multiply_rounded(weight, numbers.level);
    }
    store_words(group.levels + m * tile_tokens, pack_bytes(level[0], level[1]));
    float* to = group.sums + m * group.sums_step;
    store(to, fma(to_floats(sum), mul(factor, group.centre_unit), load(to)));
}

/// Raises the peaks of rows [r, r + rows) to cover `highest`, their largest scores, and scales down
/// what was summed below the old ones. Returns: the peaks.
template <int rows>
SIMD_INLINE v16 raise_peaks(const attention_block& block, const level_parts& s, int r,
                            v16 highest) {
    const v16 old = load_first(s.peaks + r, rows);
    // + 0 makes a 0 positive.
    const v16 whole = add(ceil(mul(highest, set1(1.0f / peak_step))), set1(0.0f));
    const v16 peak = max(old, mul(whole, set1(peak_step)));
    // Below the least number nothing was summed yet.
    const v16 summed = where_less(old, set1(-3e38f), peak, old);
    store_first(s.peaks + r, rows, peak);
    if (any_less(summed, peak, rows)) {
        const auto rescale = [](float* row, index floats, v16 factor) SIMD {
            for (index i = 0; i < floats; i += lane_count) {
                store(row + i, mul(load(row + i), factor));
            }
        };
        float factors[lane_count];
        store(factors, exp2_not_above_0(sub(summed, peak)));
        const index groups = block.v.dim / group_size;
        for (int m = 0; m < rows; ++m) {
            const v16 factor = set1(factors[m]);
            rescale(s.sums + (r + m) * lane_count, lane_count, factor);
            rescale(s.centres + (r + m) * groups * lane_count, groups * lane_count, factor);
            rescale(s.out + (r + m) * static_cast<index>(block.v.dim), block.v.dim, factor);
        }
    }
    return peak;
}

/// Scores -> weights p, added to the rows' sums, and levels for the first group of values. masked:
/// the row sees only a part of the tile. Writes 16 factors.
template <int rows, bool masked>
SIMD_PHASE void weigh_scores(const attention_block& block, const level_parts& s,
                             const strip_rows& strip) {
    const index groups = block.v.dim / group_size;
    const int begin = block.begin[strip.r] - strip.t0, end = block.end[strip.r] - strip.t0;
    v16 largest_of[8];
#pragma GCC unroll 8
    for (int m = 0; m < 8; ++m) {
        v16 x[tile_lanes];
#pragma GCC unroll 4
        for (int i = 0; i < tile_lanes && m < rows; ++i) {
            x[i] = load(strip.x + m * tile_tokens + i * lane_count);
            if (masked) {
                const int first = i * lane_count;
                x[i] = keep(x[i], begin - first, end - first, set1(-__builtin_inff()));
            }
        }
        largest_of[m] = m < rows ? max(max(x[0], x[1]), max(x[2], x[3])) : largest_of[0];
    }
    const v16 highest = largest_each(largest_of);
    const v16 peak = raise_peaks<rows>(block, s, strip.r, highest);
    float offsets[lane_count];
    store(offsets, mul(highest, set1(-weight_steps)));
    store(strip.factors, exp2_not_above_0(sub(highest, peak)));
    // Kept here, because the compiler would read each again behind every store.
    const weight_numbers numbers = read_weight_numbers();
    const weighed_group first_group = make_weighed_group(s, strip, 0, groups);
    const float* const scores = strip.x;
    std::int16_t* const weights = strip.p;
    float* const sums = s.sums + static_cast<index>(strip.r) * lane_count;
    const float* const factors = strip.factors;
#pragma GCC unroll 8
    for (int m = 0; m < rows; ++m) {
        const v16 offset = set1(offsets[m]), factor = set1(factors[m]);
        i16 words[tile_lanes];
#pragma GCC unroll 4
        for (int i = 0; i < tile_lanes; ++i) {
            const v16 x = load(scores + m * tile_tokens + i * lane_count);
            v16 steps = fma(x, set1(weight_steps), offset);
            if (masked) {
                const int first = i * lane_count;
                steps = keep(steps, begin - first, end - first, set1(-65536.0f));
            }
            words[i] = round_to_words(steps);
        }
        i16 p[2], sum = zero_words();
#pragma GCC unroll 2
        for (int i = 0; i < 2; ++i) {
            const i16 steps = pack_shorts(words[2 * i], words[2 * i + 1]);
            p[i] = exp2_shorts(numbers, sub_shorts(zero_words(), steps));
            sum = add_pairs(sum, p[i], numbers.one);
            // For later groups. Where there are none, that is cheaper than to ask.
            store_words(weights + m * tile_tokens + i * 2 * lane_count, p[i]);
        }
        float* to = sums + m * lane_count;
        store(to, fma(to_floats(sum), mul(factor, set1(weight_unit)), load(to)));
        weigh_group(numbers, first_group, m, p, factor);
    }
}

/// Levels of a later group of values.
template <int rows>
SIMD_PHASE void weigh_again(const attention_block& block, const level_parts& s,
                            const strip_rows& strip, index group) {
    const weight_numbers numbers = read_weight_numbers();
    const weighed_group next = make_weighed_group(s, strip, group, block.v.dim / group_size);
    const std::int16_t* from = strip.p;
    const float* const factors = strip.factors;
#pragma GCC unroll 8
    for (int m = 0; m < rows; ++m, from += tile_tokens) {
        const i16 p[2] = {load_words(from), load_words(from + 2 * lane_count)};
        weigh_group(numbers, next, m, p, set1(factors[m]));
    }
}

/// out[r + m] += unit * Σ levels[m, t] * values[t] of `group`, where unit is the row's own.
template <int rows>
SIMD_PHASE void weigh_levels(const attention_block& block, const level_parts& s,
                             const strip_rows& strip, index group) {
    float* out = s.out + static_cast<index>(strip.r) * block.v.dim + group * group_size;
    const v16 unit = set1(strip.values->size_units[group] * value_unit);
    for (int k = 0; k < tile_lanes; k += level_vectors) {
        ask_for_values<false>(s.asked, strip.r, group * tile_lanes + k);
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
                    if (word % 8 == 7) {
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

/// The same of few rows, from the packed values.
template <int rows>
SIMD_PHASE void weigh_packed_levels(const attention_block& block, const level_parts& s,
                                    const strip_rows& strip, index group) {
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
        if (quad % 4 == 0) {
            ask_for_values<true>(s.asked, strip.r, group * tile_lanes + quad / 4);
        }
        const index word = quad % 4 * 4 + quad / 4;  // the order of pack_bytes
        i16 v[tile_lanes];
        load_quad(block.v, s, strip.t0 + 4 * quad, quad, group, v);
#pragma GCC unroll 4
        for (int m = 0; m < rows; ++m) {
            const i16 level = set1_word(strip.levels + m * tile_tokens + 4 * word);
#pragma GCC unroll 4
            for (int i = 0; i < tile_lanes; ++i) {
                add_products(dots[m][i], level, v[i]);
                carry(dots[m][i]);
            }
        }
    }
    float* out = s.out + static_cast<index>(strip.r) * block.v.dim + group * group_size;
    const v16 unit = set1(strip.values->size_units[group] * value_unit);
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

/// `count` rows from r against the tile at t0. whole: they see all of it. Each phase goes over all
/// rows before the next one starts.
template <bool packed>
SIMD_PHASE void attend_strip(const attention_block& block, const level_parts& s, int r, int t0,
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
    over_rows<most>(count, [&]<int rows>(int i) SIMD {
        if constexpr (packed) {
            score_packed<rows>(block, s, r + i, t0, x + i * tile_tokens);
        } else {
            score_tile_rows<rows>(block, s, r + i, x + i * tile_tokens);
        }
    });
    if (whole) {
        over_rows<most>(count, [&]<int rows>(int i)
                                   SIMD { weigh_scores<rows, false>(block, s, rows_from(i)); });
    } else {
        over_rows<1>(
            count, [&]<int rows>(int i) SIMD { weigh_scores<rows, true>(block, s, rows_from(i)); });
    }
    for (index g = 0; g < block.v.dim / group_size; ++g) {
        if (g > 0) {
            over_rows<most>(
                count, [&]<int rows>(int i) SIMD { weigh_again<rows>(block, s, rows_from(i), g); });
        }
        over_rows<most>(count, [&]<int rows>(int i) SIMD {
            if constexpr (packed) {
                weigh_packed_levels<rows>(block, s, rows_from(i), g);
            } else {
                weigh_levels<rows>(block, s, rows_from(i), g);
            }
        });
    }
}

/// All rows against the 64 tokens from t0, as many at a time as see something of them.
SIMD void attend_tile_rows(const attention_block& block, level_parts& s, int t0) {
    const int t1 = t0 + tile_tokens;
    const auto attend = [&](int r, int count, bool whole) {
        if (s.asked.row < 0) {
            s.asked.row = r;
        }
        if (block.count <= packed_rows_max) {
            attend_strip<true>(block, s, r, t0, count, whole);
        } else {
            attend_strip<false>(block, s, r, t0, count, whole);
        }
    };
    // Nearly every tile of a long context.
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
    // Rows that see the same.
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
            fix_values<false>(block, s, t0, block.begin[r], block.end[r], s.part);
        }
        attend(r, count, whole);
        r += count;
    }
}

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
    level_parts s = divide_level_scratch(block);
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
    fill(s.peaks, block.count, -__builtin_inff());
    fill(s.sums, block.count * lane_count, 0.0f);
    fill(s.centres, block.count * groups * lane_count, 0.0f);
    fill(s.out, block.count * dim, 0.0f);
    const int first = s.seen.begin / tile_tokens;
    s.asked = first_asked(block, (s.seen.end + tile_tokens - 1) / tile_tokens - first);
    for (int t0 = first * tile_tokens; t0 < s.seen.end; t0 += tile_tokens) {
        ask_for_scales(block.next_k, s.asked);
        ask_for_scales(block.next_v, s.asked);
        widen_scales(block.k, t0, block.tokens, s.key_scales);
        const bool all = sees_tile(s, t0);
        if (all) {
            split_value_scales<true>(block, s, t0);
            fix_values<true>(block, s, t0, t0, t0 + tile_tokens, s.whole);
        } else {
            split_value_scales<false>(block, s, t0);
        }
        if (block.count > packed_rows_max) {
            unpack_keys(block, s, t0);
            all ? unpack_values<true>(block, s, t0) : unpack_values<false>(block, s, t0);
        }
        attend_tile_rows(block, s, t0);
        go_on_asking(block, s.asked);
    }
    for (int r = 0; r < block.count; r += lane_count) {
        merge_rows(block, s, r, block.count - r < lane_count ? block.count - r : lane_count);
    }
}
