// Matrix products of GGUF's packed types with many rows of activations, and the choice between
// these and linear_blocks.inl's. A stretch of two tiles or one is unpacked once for all rows: its
// codes become bytes and its scales floats. So what a type costs to unpack does not depend on the
// rows, and the loops that multiply are the same for all types.

constexpr int block_rows_max = 4;     // of activations that share a register tile
constexpr index rows_per_pass = 128;  // of activations that pass over a stretch
constexpr index pass_groups = 16;     // of 64 inputs that many rows pass over at a time
constexpr int few_rows = 8;           // of activations that read codes of all types as they lie
constexpr index few_rows_groups = 256;

/// Whether any number of rows reads a type's codes as they lie: they take so little work to read
/// that unpacking them first gains nothing.
constexpr bool always_direct(const block_form& form) {
    const bool one_plane = form.planes == code_planes::nibbles || form.planes == code_planes::bytes;
    return one_plane && form.groups == 1;
}

/// A stretch of `tiles` tiles as the loops over many rows read it.
template <int tiles>
struct unpacked_stretch {
    alignas(64) std::uint8_t codes[pass_groups][tiles][16][64];  // a quad of 16 rows each
    alignas(64) float scales[pass_groups][tiles][4][lane_count];
    alignas(64) float offsets[pass_groups][tiles][4][lane_count];
};

template <weight_kind kind, int j>
SIMD_INLINE void store_pair(const block_group<kind>& group, index half_group,
                            std::uint8_t (&codes)[16][64]) {
    i16 a, b;
    unpack_pair<kind, j>(group, half_group, a, b);
    store_words(codes[first_quad<kind, j>(half_group)], a);
    store_words(codes[first_quad<kind, j>(half_group) + quad_gap<kind>], b);
}

template <int tiles, weight_kind kind>
SIMD void unpack_stretch(const block_span& s, unpacked_stretch<tiles>& out) {
    constexpr block_form form = block_form_of(kind);
    for (index g = 0; g < s.group_end - s.group_begin; ++g) {
#pragma GCC unroll 4
        for (int t = 0; t < tiles; ++t) {
            const auto group = find_group<kind>(s.tile + static_cast<std::size_t>(t) * s.tile_bytes,
                                                s.group_begin + g);
#pragma GCC unroll 4
            for (int i = 0; i < form.scale_parts; ++i) {
                store(out.scales[g][t][i], group.scale(i));
            }
            if constexpr (form.offset_parts > 0) {
#pragma GCC unroll 4
                for (int i = 0; i < form.offset_parts; ++i) {
                    store(out.offsets[g][t][i], group.offset(i));
                }
            }
#pragma GCC unroll 2
            for (int half_group = 0; half_group < 2; ++half_group) {
                store_pair<kind, 0>(group, half_group, out.codes[g][t]);
                store_pair<kind, 1>(group, half_group, out.codes[g][t]);
                store_pair<kind, 2>(group, half_group, out.codes[g][t]);
                store_pair<kind, 3>(group, half_group, out.codes[g][t]);
            }
        }
    }
}

/// Adds the products of one part of a group of unpacked codes.
template <int rows, int tiles, int scale_parts, int per_carry, class Sum>
SIMD_INLINE void part_dots(const std::uint8_t (&codes)[tiles][16][64], int part,
                           const std::int8_t* q, index cols, Sum (&dots)[rows][tiles]) {
    constexpr int quads = 16 / scale_parts;
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
                    if ((i + 1) % (2 * per_carry) == 0 || i == quads - 1) {
                        carry(dots[m][t]);
                    }
                }
            }
        }
    }
}

template <int offset_parts, int rows, int tiles>
SIMD_INLINE void add_offsets(const float (&offsets)[tiles][4][lane_count],
                             const std::int32_t* corrections, index stride,
                             v16 (&sums)[rows][tiles]) {
#pragma GCC unroll 4
    for (int part = 0; part < offset_parts; ++part) {
#pragma GCC unroll 16
        for (int m = 0; m < rows; ++m) {
            const v16 sum = set1_float(corrections + m * stride + part_step(offset_parts, part));
#pragma GCC unroll 4
            for (int t = 0; t < tiles; ++t) {
                sums[m][t] = fma(load(offsets[t][part]), sum, sums[m][t]);
            }
        }
    }
}

/// What a row of activations has beside its integers, for a stretch: corrections, then the scale
/// of each group. A constant distance from row to row leaves more registers for other addresses.
constexpr index unpacked_row_words(index parts) { return pass_groups * (parts + 1); }

/// `rows` activations against an unpacked stretch.
template <int rows, int tiles, int scale_parts, int offset_parts, int per_carry>
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
    constexpr int parts = offset_parts > 0 ? offset_parts : scale_parts;
    constexpr index row = unpacked_row_words(parts);
    for (index g = s.group_begin; g < s.group_end; ++g) {
        const index at = g - s.group_begin;
        const std::int32_t* corrections = s.corrections + correction_at(parts, at);
#pragma GCC unroll 4
        for (int t = 0; t < tiles; ++t) {
            prefetch_share(s, t, g);
        }
        v16 scaled[rows][tiles];
#pragma GCC unroll 4
        for (int part = 0; part < scale_parts; ++part) {
            dot_sum<(per_carry > 0)> dots[rows][tiles];
#pragma GCC unroll 16
            for (int m = 0; m < rows; ++m) {
#pragma GCC unroll 4
                for (int t = 0; t < tiles; ++t) {
                    start_sum<per_carry, (offset_parts > 0)>(
                        dots[m][t], corrections + m * row + part_step(parts, part));
                }
            }
            part_dots<rows, tiles, scale_parts, per_carry>(w.codes[at], part, s.q + g * group_size,
                                                           s.cols, dots);
#pragma GCC unroll 4
            for (int t = 0; t < tiles; ++t) {
                const v16 scale = load(w.scales[at][t][part]);
#pragma GCC unroll 16
                for (int m = 0; m < rows; ++m) {
                    const v16 dot = to_floats(dots[m][t].words);
                    scaled[m][t] = part == 0 ? mul(scale, dot) : fma(scale, dot, scaled[m][t]);
                }
            }
        }
        if constexpr (offset_parts > 0) {
            add_offsets<offset_parts>(w.offsets[at], corrections, row, scaled);
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
template <int rows, int tiles, int scale_parts, int offset_parts, int per_carry>
SIMD_INLINE void unpacked_rows_of(const block_span& s, const unpacked_stretch<tiles>& w,
                                  int count) {
    if constexpr (rows > 0) {
        if (count == rows) {
            unpacked_block<rows, tiles, scale_parts, offset_parts, per_carry>(s, w);
        } else {
            unpacked_rows_of<rows - 1, tiles, scale_parts, offset_parts, per_carry>(s, w, count);
        }
    }
}

/// All rows of s, at most rows_per_pass of them, against a stretch.
template <int tiles, int scale_parts, int offset_parts, int per_carry>
SIMD void stretch_rows(block_span s, const unpacked_stretch<tiles>& w, int count) {
    for (int m = 0; m < count;) {
        const int rows = count - m < block_rows_max ? count - m : block_rows_max;
        unpacked_rows_of<block_rows_max, tiles, scale_parts, offset_parts, per_carry>(s, w, rows);
        s.prefetch_distance = 0;  // the first pass over the rows has prefetched all
        s.corrections += rows * unpacked_row_words(offset_parts > 0 ? offset_parts : scale_parts);
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

/// Up to rows_per_pass rows against `tiles` tiles.
template <int tiles, weight_kind kind>
SIMD void unpacked_tiles(const block_span& all, int count) {
    constexpr block_form form = block_form_of(kind);
    constexpr index parts = corrections_of(form), row = unpacked_row_words(parts);
    unpacked_stretch<tiles> stretch;
    alignas(64) std::int32_t corrections[rows_per_pass * row];
    for (index g = 0; g < all.groups; g += pass_groups) {
        block_span s = all;
        s.group_begin = g;
        s.group_end = all.groups - g < pass_groups ? all.groups : g + pass_groups;
        s.corrections = corrections;
        for (index m = 0; m < count; ++m) {
            std::int32_t* to = corrections + m * row;
            correct<kind>(s.part_sums + (m * s.groups + g) * 4, s.group_end - g, to);
            copy_scales(s.x_scales + m * s.groups + g, s.group_end - g,
                        reinterpret_cast<float*>(to + pass_groups * parts));
        }
        unpack_stretch<tiles, kind>(s, stretch);
        stretch_rows<tiles, form.scale_parts, form.offset_parts, pairs_per_carry(form)>(s, stretch,
                                                                                        count);
    }
}

/// Every strip of quant_tiles tiles or, at the end, of one.
template <weight_kind kind, bool direct>
SIMD void block_strips(const packed_matrix& w, int tile_begin, int tile_end, block_span s,
                       int count, float* y) {
    for (int tile = tile_begin; tile < tile_end;) {
        const int tiles = tile_end - tile < quant_tiles ? 1 : quant_tiles;
        s.tile = w.data + static_cast<std::size_t>(tile) * s.tile_bytes;
        s.y = y + static_cast<std::size_t>(tile) * lane_count;
        s.lanes_last = real_lanes(w, tile + tiles - 1);
        s.prefetch_distance = static_cast<std::size_t>(tiles) * s.tile_bytes;
        if constexpr (direct) {
            tiles == 1 ? direct_rows<1, kind>(s, count) : direct_rows<quant_tiles, kind>(s, count);
        } else {
            tiles == 1 ? unpacked_tiles<1, kind>(s, count)
                       : unpacked_tiles<quant_tiles, kind>(s, count);
        }
        tile += tiles;
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
        if (rows > few_rows && !always_direct(block_form_of(kind))) {
            block_strips<kind, false>(w, tile_begin, tile_end, s, static_cast<int>(rows), to);
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
                correct<kind>(s.part_sums + (row * groups + g) * 4, s.group_end - g,
                              corrections + row * s.correction_stride);
            }
            block_strips<kind, true>(w, tile_begin, tile_end, s, static_cast<int>(rows), to);
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
