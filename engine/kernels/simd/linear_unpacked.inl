// SPDX-License-Identifier: Apache-2.0
// Matrix products of GGUF's packed types with many rows of activations, and the choice between
// these and linear_blocks.inl's. A stretch of two tiles or one is unpacked once for all rows: its
// codes become bytes and its scales floats. So what a type costs to unpack does not depend on the
// rows, and the loops that multiply are the same for all types.

constexpr int block_rows_max = has_raised_codes ? 4 : 5;  // of activations in a register tile
constexpr index rows_per_pass = 128;                      // of activations that pass over a stretch
constexpr index pass_groups = 16;  // of 64 inputs that many rows pass over at a time
constexpr int few_rows = 16;       // of activations whose corrections are counted for many groups
constexpr index few_rows_groups = 128;

/// Rows of activations that read a type's codes as they lie; more unpack them first. With raised
/// codes all do where that takes so little work that unpacking gains nothing.
constexpr index direct_rows_most(const block_form& form) {
    const bool has_levels = form.planes == code_planes::nibbles && form.largest > 15;
    const bool is_plain = form.planes == code_planes::bytes ||
                          (form.planes == code_planes::nibbles && !form.has_integer_scales());
    if (has_raised_codes) {
        if (is_plain) return rows_per_pass;
        return form.has_integer_totals() || quant_tiles == 1 ? 8 : few_rows;
    }
    // Register tiles of two rows have little in common, and codes of two planes cost most.
    if (has_levels || form.planes == code_planes::nibbles_fifths ||
        form.planes == code_planes::sixes)
        return 2;
    if (form.planes == code_planes::bytes) return few_rows;
    return form.has_integer_totals() ? 4 : 6;
}

/// How the loops over many rows multiply an unpacked type; types of one shape share their loops.
struct unpacked_shape {
    int parts;             // of a group of 64 inputs, each with a scale
    int offsets;           // of a group: floats, or shorts of two parts each
    bool integer_offsets;  // (22) of ARITHMETIC.md
    bool totals;           // (21), with integer scales as floats: their products are exact
    int per_carry;         // see quads_per_carry()
};

/// Whether codes are unpacked as products with their integer scales, so that a group has one part.
constexpr bool unpacks_products(weight_kind kind) {
    return kind == weight_kind::q2_k || (kind == weight_kind::q3_k && has_raised_codes);
}

constexpr unpacked_shape unpacked_shape_of(weight_kind kind) {
    const block_form form = block_form_of(kind);
    const bool integer = form.has_integer_scales();
    const int offsets = form.has_offsets ? form.parts() / (integer ? 2 : 1) : 0;
    if (unpacks_products(kind)) {
        return {1, offsets, integer, false, quads_per_carry(15 * form.largest)};
    }
    return {form.parts(), offsets, integer, form.has_integer_totals(),
            quads_per_carry(form.largest)};
}
constexpr index corrections_of(const unpacked_shape& shape) {
    return corrections_of(shape.parts, shape.offsets > 0);
}

/// A stretch of `tiles` tiles as the loops over many rows read it.
template <int tiles>
struct unpacked_stretch {
    alignas(64) std::uint8_t codes[pass_groups][tiles][16][64];  // a quad of 16 rows each
    alignas(64) float scales[pass_groups][tiles][4][lane_count];
    alignas(64) std::int32_t offsets[pass_groups][tiles][2][lane_count];  // or floats
    alignas(64) float units[pass_groups][tiles][2][lane_count];  // d and -dmin, where they are used
};

SIMD_INLINE v16 load_floats(const std::int32_t* bits) {
    return load(reinterpret_cast<const float*>(bits));
}

/// Codes times their part's integer scale, which is `scales` in both shorts of a row's word; of
/// q3_k, whose codes have a zero and whose scales have a sign, product_zero too high.
template <weight_kind kind>
SIMD_INLINE i16 multiply_codes(i16 codes, i16 scales) {
    constexpr block_form form = block_form_of(kind);
    if constexpr (form.zero == 0) {
        return multiply_shorts(codes, scales);  // no product is above 255
    } else {
        const i16 even = mask_shorts<0xff>(multiply_shorts(mask_shorts<0xff>(codes), scales));
        const i16 odd = multiply_shorts(mask_shorts<0xff00>(codes), scales);
        constexpr std::int32_t base = product_zero * 0x10001, zero = form.zero * 0x10001;
        const i16 low = mask_shorts<0xff>(
            sub_shorts(set1_word(&base), multiply_shorts(set1_word(&zero), scales)));
        return add_bytes(or_words(even, odd), or_words(low, shift_left_shorts<8>(low)));
    }
}

template <weight_kind kind, int step, bool high, int j>
SIMD_INLINE void store_side(const block_group<kind>& group, std::uint8_t (&codes)[16][64]) {
    constexpr block_form form = block_form_of(kind);
    i16 quad = unpack_quad<kind, step, high, j, false>(group.codes);
    if constexpr (unpacks_products(kind)) {
        const i16 pairs = group.scale_pairs(step);
        quad =
            multiply_codes<kind>(quad, high ? double_high_shorts(pairs) : double_low_shorts(pairs));
    }
    store_words(codes[first_quad(form, step, high) + j], quad);
}
template <weight_kind kind, int step, int j>
SIMD_INLINE void store_quads(const block_group<kind>& group, std::uint8_t (&codes)[16][64]) {
    constexpr block_form form = block_form_of(kind);
    store_side<kind, step, false, j>(group, codes);
    store_side<kind, step, true, j>(group, codes);
    if constexpr (j + 1 < step_quads(form)) {
        store_quads<kind, step, j + 1>(group, codes);
    } else if constexpr (step + 1 < steps_of(form)) {
        store_quads<kind, step + 1, 0>(group, codes);
    }
}

/// The integer scales of parts 2i and 2i + 1 as floats.
SIMD_INLINE void store_pairs(i16 pairs, float* low, float* high) {
    store(low, to_floats(shift_right_words<16>(shift_left_words<16>(pairs))));
    store(high, to_floats(shift_right_words<16>(pairs)));
}

template <weight_kind kind>
SIMD_INLINE void store_scales(const block_group<kind>& group, float (&scales)[4][lane_count],
                              std::int32_t (&offsets)[2][lane_count],
                              float (&units)[2][lane_count]) {
    constexpr unpacked_shape shape = unpacked_shape_of(kind);
    const v16 unit = group.unit();
    if constexpr (shape.totals) {
        store(units[0], unit);
        for (int i = 0; i < shape.parts; i += 2)
            store_pairs(group.scale_pairs(i / 2), scales[i], scales[i + 1]);
    } else if constexpr (unpacks_products(kind)) {
        store(scales[0], unit);
    } else {
        for (int i = 0; i < shape.parts; ++i) store(scales[i], group.scale(i, unit));
    }
    if constexpr (shape.offsets > 0 && shape.integer_offsets) {
        store(units[1], group.negative_unit());
        for (int i = 0; i < shape.offsets; ++i) store_words(offsets[i], group.minimum_pairs(i));
    } else if constexpr (shape.offsets > 0) {
        for (int i = 0; i < shape.offsets; ++i)
            store(reinterpret_cast<float*>(offsets[i]), group.offset(i));
    }
}

template <int tiles, weight_kind kind>
SIMD void unpack_stretch(const block_span& s, unpacked_stretch<tiles>& out) {
    for (index g = 0; g < s.group_end - s.group_begin; ++g) {
#pragma GCC unroll 4
        for (int t = 0; t < tiles; ++t) {
            const auto group = find_group<kind>(s.tile + static_cast<std::size_t>(t) * s.tile_bytes,
                                                s.group_begin + g);
            store_scales<kind>(group, out.scales[g][t], out.offsets[g][t], out.units[g][t]);
            store_quads<kind, 0, 0>(group, out.codes[g][t]);
        }
    }
}

/// Adds the products of one part of a group of unpacked codes.
template <int rows, int tiles, int parts, int per_carry, class Sum>
SIMD_INLINE void part_dots(const std::uint8_t (&codes)[tiles][16][64], int part,
                           const std::int8_t* q, index cols, Sum (&dots)[rows][tiles]) {
    constexpr int quads = 16 / parts;
#pragma GCC unroll 16
    for (int i = 0; i < quads; ++i) {
        const int quad = part * quads + i;
        i16 w[tiles];
#pragma GCC unroll 4
        for (int t = 0; t < tiles; ++t) {
            w[t] = load_words(codes[t][quad]);
        }
#pragma GCC unroll 16
        for (int m = 0; m < rows; ++m) {
            const i16 x = set1_word(q + m * cols + 4 * quad);
#pragma GCC unroll 4
            for (int t = 0; t < tiles; ++t) {
                add_codes<per_carry>(dots[m][t], w[t], x);
                if constexpr (per_carry > 0) {
                    if ((i + 1) % per_carry == 0 || i == quads - 1) {
                        carry(dots[m][t]);
                    }
                }
            }
        }
    }
}

/// Adds a group's offsets times the sums of the activations to t of (20) or (21).
template <unpacked_shape shape, int rows, int tiles>
SIMD_INLINE void add_offsets(const std::int32_t (&offsets)[tiles][2][lane_count],
                             const float (&units)[tiles][2][lane_count],
                             const std::int32_t* corrections, index stride,
                             v16 (&scaled)[rows][tiles]) {
#pragma GCC unroll 16
    for (int m = 0; m < rows; ++m) {
        i16 totals[tiles];
#pragma GCC unroll 4
        for (int i = 0; i < shape.offsets; ++i) {
            const std::int32_t* sum = corrections + m * stride + i;
#pragma GCC unroll 4
            for (int t = 0; t < tiles; ++t) {
                if constexpr (shape.integer_offsets) {
                    totals[t] = add_pairs(i == 0 ? zero_words() : totals[t],
                                          load_words(offsets[t][i]), set1_word(sum));
                } else {
                    scaled[m][t] = fma(load_floats(offsets[t][i]), set1_float(sum), scaled[m][t]);
                }
            }
        }
        if constexpr (shape.integer_offsets) {
#pragma GCC unroll 4
            for (int t = 0; t < tiles; ++t) {
                scaled[m][t] = fma(load(units[t][1]), to_floats(totals[t]), scaled[m][t]);
            }
        }
    }
}

/// The words of a row of activations after its integers, for a stretch: corrections, then the scale
/// of each group. A constant distance from row to row leaves more registers for other addresses.
constexpr index unpacked_row_words(const unpacked_shape& shape) {
    return pass_groups * (corrections_of(shape) + 1);
}

/// t of (20) or (21) for a group of an unpacked stretch, without offsets.
template <unpacked_shape shape, int rows, int tiles>
SIMD_INLINE void add_parts(const block_span& s, const unpacked_stretch<tiles>& w, index at,
                           const std::int8_t* q, const std::int32_t* corrections,
                           v16 (&scaled)[rows][tiles]) {
    constexpr index parts = corrections_of(shape), row = unpacked_row_words(shape);
    // Where products are added up in 16 bits, sums of 32 would take registers from the start on.
    constexpr bool corrects_last = !has_raised_codes && shape.per_carry > 0 && shape.offsets == 0;
#pragma GCC unroll 4
    for (int part = 0; part < shape.parts; ++part) {
        dot_sum<(shape.per_carry > 0)> dots[rows][tiles];
#pragma GCC unroll 16
        for (int m = 0; m < rows; ++m) {
#pragma GCC unroll 4
            for (int t = 0; t < tiles; ++t) {
                start_sum<shape.per_carry, (shape.offsets > 0 || corrects_last)>(
                    dots[m][t], corrections + m * row + part_step(parts, part));
            }
        }
        part_dots<rows, tiles, shape.parts, shape.per_carry>(w.codes[at], part, q, s.cols, dots);
#pragma GCC unroll 4
        for (int t = 0; t < tiles; ++t) {
            const v16 scale = load(w.scales[at][t][part]);
#pragma GCC unroll 16
            for (int m = 0; m < rows; ++m) {
                i16 words = dots[m][t].words;
                if constexpr (corrects_last)
                    words = add(words, set1_word(corrections + m * row + part_step(parts, part)));
                const v16 dot = to_floats(words);
                scaled[m][t] = part == 0 ? mul(scale, dot) : fma(scale, dot, scaled[m][t]);
            }
        }
    }
    if constexpr (shape.totals) {
#pragma GCC unroll 16
        for (int m = 0; m < rows; ++m) {
#pragma GCC unroll 4
            for (int t = 0; t < tiles; ++t) {
                scaled[m][t] = mul(load(w.units[at][t][0]), scaled[m][t]);
            }
        }
    }
}

/// `rows` activations against an unpacked stretch.
template <unpacked_shape shape, int rows, int tiles>
SIMD void unpacked_block(const block_span& s, const unpacked_stretch<tiles>& w) {
    v16 sums[rows][tiles];
#pragma GCC unroll 16
    for (int m = 0; m < rows; ++m) {
#pragma GCC unroll 4
        for (int t = 0; t < tiles; ++t) {
            sums[m][t] = start_or_resume(s.group_begin > 0,
                                         s.y + static_cast<std::size_t>(m) * s.ldy + t * lane_count,
                                         t == tiles - 1 ? s.lanes_last : lane_count);
        }
    }
    constexpr index parts = corrections_of(shape), row = unpacked_row_words(shape);
    for (index g = s.group_begin; g < s.group_end; ++g) {
        const index at = g - s.group_begin;
        const std::int32_t* corrections = s.corrections + correction_at(parts, at);
#pragma GCC unroll 4
        for (int t = 0; t < tiles; ++t) {
            prefetch_group(s, t, g);
        }
        v16 scaled[rows][tiles];
        add_parts<shape>(s, w, at, s.q + g * group_size, corrections, scaled);
        if constexpr (shape.offsets > 0) {
            add_offsets<shape>(w.offsets[at], w.units[at], corrections, row, scaled);
        }
#pragma GCC unroll 16
        for (int m = 0; m < rows; ++m) {
            const v16 x_scale = set1_float(s.corrections + m * row + pass_groups * parts + at);
#pragma GCC unroll 4
            for (int t = 0; t < tiles; ++t) {
                sums[m][t] = fma(scaled[m][t], x_scale, sums[m][t]);
            }
        }
    }
#pragma GCC unroll 16
    for (int m = 0; m < rows; ++m) {
        float* y = s.y + static_cast<std::size_t>(m) * s.ldy;
#pragma GCC unroll 4
        for (int t = 0; t < tiles; ++t) {
            store_first(y + t * lane_count, t == tiles - 1 ? s.lanes_last : lane_count, sums[m][t]);
        }
    }
}

/// Calls unpacked_block for `count` activations, 1 to `rows`.
template <unpacked_shape shape, int rows, int tiles>
SIMD_INLINE void unpacked_rows_of(const block_span& s, const unpacked_stretch<tiles>& w,
                                  int count) {
    if constexpr (rows > 0) {
        if (count == rows) {
            unpacked_block<shape, rows, tiles>(s, w);
        } else {
            unpacked_rows_of<shape, rows - 1, tiles>(s, w, count);
        }
    }
}

/// All rows of s, at most rows_per_pass of them, against a stretch; in tiles as even as they go, as
/// those of few rows gain little.
template <unpacked_shape shape, int tiles>
SIMD void stretch_rows(block_span s, const unpacked_stretch<tiles>& w, int count) {
    for (int m = 0; m < count;) {
        const int blocks = (count - m + block_rows_max - 1) / block_rows_max;
        const int rows = (count - m + blocks - 1) / blocks;
        unpacked_rows_of<shape, block_rows_max, tiles>(s, w, rows);
        s.prefetch_distance = 0;  // the first pass over the rows has prefetched all
        s.corrections += rows * unpacked_row_words(shape);
        s.q += rows * s.cols;
        s.y += static_cast<std::size_t>(rows) * s.ldy;
        m += rows;
    }
}

/// The scales of one row's groups, at most pass_groups of them.
SIMD_INLINE void copy_scales(const float* from, index groups, float* to) {
    static_assert(pass_groups == lane_count);
    store(to, load_first(from, static_cast<int>(groups)));
}

/// Tiles from `tile` on that a strip takes side by side.
SIMD_INLINE int strip_tiles(int tile, int tile_end) {
    return tile_end - tile < quant_tiles ? 1 : quant_tiles;
}

/// s, set to the `tiles` tiles from `tile` on.
SIMD_INLINE void set_tiles(const packed_matrix& w, int tile, int tiles, float* y, block_span& s) {
    s.tile = w.data + static_cast<std::size_t>(tile) * s.tile_bytes;
    s.y = y + static_cast<std::size_t>(tile) * lane_count;
    s.lanes_last = real_lanes(w, tile + tiles - 1);
    s.prefetch_distance = static_cast<std::size_t>(tiles) * s.tile_bytes;
}

/// Every strip of quant_tiles tiles or, at the end, of one.
template <weight_kind kind>
SIMD void direct_strips(const packed_matrix& w, int tile_begin, int tile_end, block_span s,
                        int count, float* y) {
    for (int tile = tile_begin; tile < tile_end;) {
        const int tiles = strip_tiles(tile, tile_end);
        set_tiles(w, tile, tiles, y, s);
        tiles == 1 ? direct_rows<1, kind>(s, count) : direct_rows<quant_tiles, kind>(s, count);
        tile += tiles;
    }
}

/// A stretch of some tiles against `count` rows.
template <int tiles, weight_kind kind>
SIMD void unpacked_tiles(const block_span& s, int count) {
    unpacked_stretch<tiles> stretch;
    unpack_stretch<tiles, kind>(s, stretch);
    stretch_rows<unpacked_shape_of(kind)>(s, stretch, count);
}

/// Up to rows_per_pass rows, stretch after stretch of the inputs, so that what corrects a stretch
/// is counted once for all tiles.
template <weight_kind kind>
SIMD void unpacked_strips(const packed_matrix& w, int tile_begin, int tile_end, block_span s,
                          int count, float* y) {
    constexpr unpacked_shape shape = unpacked_shape_of(kind);
    constexpr index parts = corrections_of(shape), row = unpacked_row_words(shape);
    alignas(64) std::int32_t corrections[rows_per_pass * row];
    s.corrections = corrections;
    for (index g = 0; g < s.groups; g += pass_groups) {
        s.group_begin = g;
        s.group_end = s.groups - g < pass_groups ? s.groups : g + pass_groups;
        for (index m = 0; m < count; ++m) {
            std::int32_t* to = corrections + m * row;
            correct<kind, unpacks_products(kind) ? multiplied::products : multiplied::codes>(
                s.part_sums + (m * s.groups + g) * 4, s.group_end - g, to);
            copy_scales(s.x_scales + m * s.groups + g, s.group_end - g,
                        reinterpret_cast<float*>(to + pass_groups * parts));
        }
        for (int tile = tile_begin; tile < tile_end;) {
            const int tiles = strip_tiles(tile, tile_end);
            set_tiles(w, tile, tiles, y, s);
            tiles == 1 ? unpacked_tiles<1, kind>(s, count)
                       : unpacked_tiles<quant_tiles, kind>(s, count);
            tile += tiles;
        }
    }
}

template <weight_kind kind>
SIMD void linear_kind(const packed_matrix& w, int tile_begin, int tile_end, const quantized_rows& x,
                      int count, float* y, std::size_t ldy) {
    constexpr index parts = corrections_of(block_form_of(kind));
    const index groups = w.cols / group_size;
    block_span s{};
    s.tile_bytes = w.tile_bytes();
    s.group_bytes = w.record_bytes() / static_cast<std::size_t>(block_form_of(kind).groups);
    s.groups = groups;
    s.cols = w.cols;
    s.ldy = ldy;
    for (index m = 0; m < count; m += rows_per_pass) {
        const index rows = count - m < rows_per_pass ? count - m : rows_per_pass;
        s.q = x.q + m * s.cols;
        s.x_scales = x.scales + m * groups;
        s.part_sums = x.part_sums + m * groups * 4;
        float* to = y + static_cast<std::size_t>(m) * ldy;
        if (rows > direct_rows_most(block_form_of(kind))) {
            unpacked_strips<kind>(w, tile_begin, tile_end, s, static_cast<int>(rows), to);
            continue;
        }
        static_assert(few_rows * few_rows_groups == rows_per_pass * pass_groups);
        alignas(64) std::int32_t corrections[few_rows * few_rows_groups * parts];
        const index run = rows > few_rows ? pass_groups : few_rows_groups;
        s.corrections = corrections;
        s.correction_stride = run * parts;
        for (index g = 0; g < groups; g += run) {
            s.group_begin = g;
            s.group_end = groups - g < run ? groups : g + run;
            for (index row = 0; row < rows; ++row) {
                correct<kind, has_raised_codes ? multiplied::raised_codes : multiplied::codes>(
                    s.part_sums + (row * groups + g) * 4, s.group_end - g,
                    corrections + row * s.correction_stride);
            }
            direct_strips<kind>(w, tile_begin, tile_end, s, static_cast<int>(rows), to);
        }
    }
}

SIMD void linear_blocks(const packed_matrix& w, int tile_begin, int tile_end,
                        const quantized_rows& x, int count, float* y, std::size_t ldy) {
    using enum weight_kind;
    const auto run = [&]<weight_kind kind>()
                         SIMD { linear_kind<kind>(w, tile_begin, tile_end, x, count, y, ldy); };
    switch (w.kind) {
        case q4_0:
            return run.template operator()<q4_0>();
        case q4_1:
            return run.template operator()<q4_1>();
        case q5_0:
            return run.template operator()<q5_0>();
        case q5_1:
            return run.template operator()<q5_1>();
        case q8_0:
            return run.template operator()<q8_0>();
        case iq4_nl:
            return run.template operator()<iq4_nl>();
        case iq4_xs:
            return run.template operator()<iq4_xs>();
        case q2_k:
            return run.template operator()<q2_k>();
        case q3_k:
            return run.template operator()<q3_k>();
        case q4_k:
            return run.template operator()<q4_k>();
        case q5_k:
            return run.template operator()<q5_k>();
        default:
            return run.template operator()<q6_k>();
    }
}
