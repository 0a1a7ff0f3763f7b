// SPDX-License-Identifier: Apache-2.0
// Attention by tiles: the online softmax in 16-bit integers, from scores to weights and levels, and
// the merge of a frame's results into the rows' states. Numbers in parentheses are formulas of
// ARITHMETIC.md.

/// Constants of (10) and (15), each in every 16-bit lane.
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
/// level_dither() of the 64 tokens of a tile, in the order of pack_shorts.
struct packed_dither {
    alignas(64) std::int16_t values[tile_tokens];
    constexpr packed_dither() : values() {
        for (int i = 0; i < tile_tokens; ++i) {
            const int half = i / 32 * 32, lane = i % 32 / 8, in_lane = i % 8;
            const int token = half + (in_lane < 4 ? 0 : 16) + 4 * lane + in_lane % 4;
            values[i] = static_cast<std::int16_t>(level_dither(token));
        }
    }
};
constexpr packed_dither dither;
/// Loads weight_number_words through a pointer that is opaque to the compiler: GCC builds constants
/// that it knows again for each use, on the ports that shuffle.
SIMD_INLINE weight_numbers read_weight_numbers() {
    const std::uint32_t* at = weight_number_words;
    __asm__("" : "+r"(at));
    return {set1_word(at),     set1_word(at + 1), set1_word(at + 2),
            set1_word(at + 3), set1_word(at + 4), set1_word(at + 5)};
}

/// (10): 2^(-a / weight_steps) in units of 1 / weight_one, for 32 integers of 16 bits.
SIMD_INLINE i16 exp2_shorts(const weight_numbers& numbers, i16 a) {
    const i16 fraction = shift_left_shorts<16 - weight_step_bits>(a);
    i16 h = multiply_high(numbers.cubic, fraction);
    h = multiply_high(sub_shorts(numbers.square, h), fraction);
    h = multiply_high(sub_shorts(numbers.linear, h), fraction);
    const i16 twice = sub_shorts(numbers.twice_one, h);
    return average_shorts(shift_right_each(twice, shift_right_shorts<weight_step_bits>(a)),
                          zero_words());
}

/// Query rows [r, ...) of a strip at the tile that begins at token t0, and their buffers.
struct strip_rows {
    int r, t0;
    const fixed_point_scales* values;
    const float* x;        // [rows][64] scores to base 2
    std::int16_t* p;       // [rows][64] weights
    std::uint8_t* levels;  // [rows][64] of one group, in the order of pack_bytes
    float* factors;        // [rows], f of (7)
};

/// The values' integer scales of one group, and where the results of a strip's first row go.
struct group_scales {
    const std::int16_t *sizes, *centres;  // [64], in the order of pack_shorts
    v16 centre_unit;
    float* sums;           // [16], C of (14)
    index sums_step;       // floats, from row to row
    std::uint8_t* levels;  // [rows][64]
};
SIMD_INLINE group_scales make_group_scales(const tile_parts& s, const strip_rows& strip,
                                           index group, index groups) {
    const fixed_point_scales& fixed = *strip.values;
    return {fixed.sizes + group * tile_tokens,
            fixed.centres + group * tile_tokens,
            set1(fixed.centre_units[group]),
            s.centres + (strip.r * groups + group) * lane_count,
            groups * lane_count,
            strip.levels};
}

/// (14) and (15) of row m of a strip: adds its weights times centres, and writes its levels.
SIMD_INLINE void quantize_weights(const weight_numbers& numbers, const group_scales& group, index m,
                                  const i16 (&p)[2], v16 factor) {
    i16 sum = zero_words(), level[2];
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {
        sum = add_pairs(sum, p[i], load_words(group.centres + i * 2 * lane_count));
        const i16 weight = multiply_rounded(p[i], load_words(group.sizes + i * 2 * lane_count));
        const i16 dithered =
            add_shorts_saturated(weight, load_words(dither.values + i * 2 * lane_count));
        level[i] = multiply_rounded(dithered, numbers.level);
    }
    store_words(group.levels + m * tile_tokens, pack_bytes(level[0], level[1]));
    float* to = group.sums + m * group.sums_step;
    store(to, fma(to_floats(sum), mul(factor, group.centre_unit), load(to)));
}

/// (6) and (7): raises the running maxima of rows [r, r + rows) to cover `highest`, their largest
/// scores, and rescales the sums of rows whose maximum rose. Returns: the maxima.
template <int rows>
SIMD_INLINE v16 update_maxima(const attention_block& block, const tile_parts& s, int r,
                              v16 highest) {
    const v16 old = load_first(s.maxima + r, rows);
    // Adding 0 turns -0 into +0.
    const v16 whole = add(ceil(mul(highest, set1(1.0f / maximum_step))), set1(0.0f));
    const v16 maximum = max(old, mul(whole, set1(maximum_step)));
    // A maximum of -infinity says that nothing was summed yet, so nothing is rescaled.
    const v16 summed = where_less(old, set1(-3e38f), maximum, old);
    store_first(s.maxima + r, rows, maximum);
    if (any_less(summed, maximum, rows)) {
        const auto rescale = [](float* row, index floats, v16 factor) SIMD {
            for (index i = 0; i < floats; i += lane_count) {
                store(row + i, mul(load(row + i), factor));
            }
        };
        float factors[lane_count];
        store(factors, exp2_not_above_0(sub(summed, maximum)));
        const index groups = block.v.dim / group_size;
        for (int m = 0; m < rows; ++m) {
            const v16 factor = set1(factors[m]);
            rescale(s.sums + (r + m) * lane_count, lane_count, factor);
            rescale(s.centres + (r + m) * groups * lane_count, groups * lane_count, factor);
            rescale(s.out + (r + m) * static_cast<index>(block.v.dim), block.v.dim, factor);
        }
    }
    return maximum;
}

/// (6) to (11), then (14) and (15) for the first group of values: scores -> weights p, which are
/// added to the rows' denominators, and levels. masked: the row sees only a part of the tile.
/// Writes 16 factors.
template <int rows, bool masked>
SIMD_PHASE void softmax_rows(const attention_block& block, const tile_parts& s,
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
    const v16 maximum = update_maxima<rows>(block, s, strip.r, highest);
    float offsets[lane_count];
    store(offsets, mul(highest, set1(-weight_steps)));
    store(strip.factors, exp2_not_above_0(sub(highest, maximum)));
    // Local copies: the compiler would load the fields again after every store.
    const weight_numbers numbers = read_weight_numbers();
    const group_scales first_group = make_group_scales(s, strip, 0, groups);
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
            // For later groups of values; an unneeded store costs less than a branch.
            store_words(weights + m * tile_tokens + i * 2 * lane_count, p[i]);
        }
        float* to = sums + m * lane_count;
        store(to, fma(to_floats(sum), mul(factor, set1(weight_unit)), load(to)));
        quantize_weights(numbers, first_group, m, p, factor);
    }
}

/// (14) and (15) for a later group of values.
template <int rows>
SIMD_PHASE void requantize_weights(const attention_block& block, const tile_parts& s,
                                   const strip_rows& strip, index group) {
    const weight_numbers numbers = read_weight_numbers();
    const group_scales next = make_group_scales(s, strip, group, block.v.dim / group_size);
    const std::int16_t* from = strip.p;
    const float* const factors = strip.factors;
#pragma GCC unroll 8
    for (int m = 0; m < rows; ++m, from += tile_tokens) {
        const i16 p[2] = {load_words(from), load_words(from + 2 * lane_count)};
        quantize_weights(numbers, next, m, p, set1(factors[m]));
    }
}

/// (17) and (18): merges the frame's results of up to 16 rows from r into the rows' states.
SIMD void merge_rows(const attention_block& block, const tile_parts& s, int r, int count) {
    const index groups = block.v.dim / group_size;
    float maxima[lane_count] = {}, sums[lane_count] = {}, new_sums[lane_count] = {};
    for (int m = 0; m < count; ++m) {
        maxima[m] = block.state[r + m].max;
        sums[m] = block.state[r + m].sum;
        new_sums[m] = fold(load(s.sums + (r + m) * lane_count));
    }
    const v16 old_peak = load(maxima);
    const v16 new_peak = mul(load_first(s.maxima + r, count), set1(exp_ln2));
    const v16 maximum = max(old_peak, new_peak);
    const v16 a = exp_not_above_0(sub(old_peak, maximum));
    const v16 b = exp_not_above_0(sub(new_peak, maximum));
    float old_factors[lane_count], new_factors[lane_count];
    store(maxima, maximum);
    store(sums, fma(load(sums), a, mul(load(new_sums), b)));
    store(old_factors, a);
    store(new_factors, b);
    for (int m = 0; m < count; ++m) {
        const index row = r + m;
        if (block.begin[row] >= block.end[row]) {
            continue;
        }
        block.state[row] = {maxima[m], sums[m]};
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
