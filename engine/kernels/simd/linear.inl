// SPDX-License-Identifier: Apache-2.0
// Matrix products over 16 output rows a register. See elements.inl for how this is used.
// A register tile is `rows` activations x `tiles` weight tiles; each of its sums is a chain of its
// own, so no result depends on the shape of the register tile. Many rows walk over one stretch of
// inputs at a time, short enough that its weights stay in L1; their sums wait in y meanwhile.

SIMD_INLINE v16 start_or_resume(bool resume, const float* y, int lanes) {
    return resume ? load_first(y, lanes) : set1(0.0f);
}

SIMD_INLINE v16 load_scales(const std::byte* at, scale_kind kind) {
    if (kind == scale_kind::f16) {
        return load_half(at);
    }
    return kind == scale_kind::bf16 ? load_bfloat(at) : load(reinterpret_cast<const float*>(at));
}

/// What a product of one block of rows reads and writes; advanced by the callers.
struct quant_span {
    const std::byte* tile;
    std::size_t tile_bytes, record_bytes, scale_bytes;  // scale_bytes: of 16 scales
    scale_kind scales;
    index groups, cols;
    index group_begin, group_end;
    const std::int8_t* q;
    const float* x_scales;
    const float* x_sums;
    float* y;
    std::size_t ldy;
    int lanes_last;                 // real rows of the last tile
    const std::int32_t* offsets;    // of linear_offset: [rows][halves of the groups of this pass]
    index offset_stride;            // from one row of offsets to the next
    index offset_group;             // the group that offsets start at
    std::size_t prefetch_distance;  // bytes from a tile to the one that is prefetched; 0: none
};

/// Prefetches one record of weights into L2: the hardware prefetcher starts again with every page,
/// and a tile of a small model is little more than one.
SIMD_INLINE void prefetch_record(const std::byte* record, std::size_t bytes) {
    for (std::size_t i = 0; i < bytes; i += 64) {
        __builtin_prefetch(record + i, 0, 2);
    }
}

template <int rows, int tiles, bool four_bit>
SIMD_INLINE void group_dots(const std::byte* const (&packed)[tiles], const std::int8_t* q,
                            index cols, dot_sum<four_bit> (&dots)[rows][tiles]) {
#pragma GCC unroll 16
    for (int j = 0; j < (four_bit ? 8 : 16); ++j) {
        i16 low[tiles], high[tiles];
#pragma GCC unroll 4
        for (int t = 0; t < tiles; ++t) {
            low[t] = load_words(packed[t] + j * 64);
            if constexpr (four_bit) {
                high[t] = high_nibbles(low[t]);
                low[t] = low_nibbles(low[t]);
            }
        }
#pragma GCC unroll 16
        for (int m = 0; m < rows; ++m) {
            const i16 x = set1_word(q + m * cols + 4 * j);
#pragma GCC unroll 4
            for (int t = 0; t < tiles; ++t) {
                if constexpr (four_bit) {
                    add_products(dots[m][t], low[t], x);
                } else {
                    add_weights(dots[m][t], low[t], x);
                }
            }
            if constexpr (four_bit) {
                const i16 upper = set1_word(q + m * cols + 32 + 4 * j);
#pragma GCC unroll 4
                for (int t = 0; t < tiles; ++t) {
                    add_products(dots[m][t], high[t], upper);
                    if (j % 4 == 3) {
                        carry(dots[m][t]);
                    }
                }
            }
        }
    }
}

template <int rows, int tiles, bool four_bit>
SIMD void quant_block(const quant_span& s) {
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
    for (index g = s.group_begin; g < s.group_end; ++g) {
        const std::byte* packed[tiles];
        dot_sum<four_bit> dots[rows][tiles];
#pragma GCC unroll 4
        for (int t = 0; t < tiles; ++t) {
            packed[t] = s.tile + static_cast<std::size_t>(t) * s.tile_bytes +
                        static_cast<std::size_t>(g) * s.record_bytes + 2 * s.scale_bytes;
            if (s.prefetch_distance > 0)
                prefetch_record(packed[t] - 2 * s.scale_bytes + s.prefetch_distance,
                                s.record_bytes);
#pragma GCC unroll 16
            for (int m = 0; m < rows; ++m) {
                if constexpr (!four_bit && byte_offset != 0) {
                    start(dots[m][t], s.offsets + m * s.offset_stride + 2 * (g - s.offset_group));
                } else {
                    clear(dots[m][t]);
                }
            }
        }
        group_dots<rows, tiles, four_bit>(packed, s.q + g * group_size, s.cols, dots);
#pragma GCC unroll 4
        for (int t = 0; t < tiles; ++t) {
            const v16 scale = load_scales(packed[t] - 2 * s.scale_bytes, s.scales);
            const v16 bias = load_scales(packed[t] - s.scale_bytes, s.scales);
#pragma GCC unroll 16
            for (int m = 0; m < rows; ++m) {
                const v16 scaled =
                    mul(to_floats(dots[m][t].words), set1(s.x_scales[m * s.groups + g]));
                sums[m][t] = fma(scale, scaled, sums[m][t]);
                sums[m][t] = fma(bias, set1(s.x_sums[m * s.groups + g]), sums[m][t]);
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

/// Adds the products of half a group of mxfp4 (32 inputs).
template <int rows, int tiles>
SIMD_INLINE void half_dots(const std::byte* const (&packed)[tiles], const std::int8_t* q,
                           index cols, dot_sum<true> (&dots)[rows][tiles]) {
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
        i16 low[tiles], high[tiles];
#pragma GCC unroll 4
        for (int t = 0; t < tiles; ++t) {
            const i16 codes = load_words(packed[t] + j * 64);
            high[t] = look_up(mxfp4_levels, high_nibbles(codes));
            low[t] = look_up(mxfp4_levels, low_nibbles(codes));
        }
#pragma GCC unroll 16
        for (int m = 0; m < rows; ++m) {
            const i16 x = set1_word(q + m * cols + 4 * j);
            const i16 upper = set1_word(q + m * cols + 16 + 4 * j);
#pragma GCC unroll 4
            for (int t = 0; t < tiles; ++t) {
                add_products(dots[m][t], low[t], x);
                add_products(dots[m][t], high[t], upper);
                if (j % 2 == 1) {
                    carry(dots[m][t]);
                }
            }
        }
    }
}

/// As quant_block, for mxfp4. The levels are mxfp4_offset too high; the sums start from the
/// negative of what this adds.
template <int rows, int tiles>
SIMD void mxfp4_block(const quant_span& s) {
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
    for (index block = 2 * s.group_begin; block < 2 * s.group_end; ++block) {
        const std::byte* units[tiles];
        const std::byte* packed[tiles];
        dot_sum<true> dots[rows][tiles];
#pragma GCC unroll 4
        for (int t = 0; t < tiles; ++t) {
            const std::byte* record = s.tile + static_cast<std::size_t>(t) * s.tile_bytes +
                                      static_cast<std::size_t>(block / 2) * s.record_bytes;
            if (s.prefetch_distance > 0 && block % 2 == 0)
                prefetch_record(record + s.prefetch_distance, s.record_bytes);
            units[t] = record + block % 2 * lane_count;
            packed[t] = record + 2 * lane_count + block % 2 * 256;
#pragma GCC unroll 16
            for (int m = 0; m < rows; ++m) {
                start(dots[m][t], s.offsets + m * s.offset_stride + block - 2 * s.offset_group);
            }
        }
        half_dots<rows, tiles>(packed, s.q + block * mxfp4_half, s.cols, dots);
#pragma GCC unroll 4
        for (int t = 0; t < tiles; ++t) {
            const v16 unit = load_units(units[t]);
#pragma GCC unroll 16
            for (int m = 0; m < rows; ++m) {
                const v16 x_scale = set1(s.x_scales[m * s.groups + block / 2]);
                sums[m][t] = fma(unit, mul(to_floats(dots[m][t].words), x_scale), sums[m][t]);
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

/// Calls quant_block or mxfp4_block for `rows` activations, 1 to quant_rows_max.
template <int rows, int tiles, weight_kind kind>
SIMD_INLINE void quant_rows(const quant_span& s, int count) {
    if constexpr (rows > 0) {
        if (count != rows) {
            quant_rows<rows - 1, tiles, kind>(s, count);
        } else if constexpr (kind == weight_kind::mxfp4) {
            mxfp4_block<rows, tiles>(s);
        } else {
            quant_block<rows, tiles, kind == weight_kind::q4>(s);
        }
    }
}

/// The groups [all.group_begin, all.group_end).
template <int tiles, weight_kind kind>
SIMD void quant_tiles_of(const quant_span& all, int count) {
    // One pass copies nothing: a span's fields have just been stored one by one, and reading them
    // back in wider registers stalls, for some 4 % of decoding one token.
    if (count <= quant_rows_max) {
        quant_rows<quant_rows_max, tiles, kind>(all, count);
        return;
    }
    // Two tiles of 16 groups at 4 bit or 8 at 8 bit: 18 KB.
    const index stretch = kind == weight_kind::q8 ? 8 : 16;
    for (index g = all.group_begin; g < all.group_end; g += stretch) {
        quant_span s = all;
        s.group_begin = g;
        s.group_end = all.group_end - g < stretch ? all.group_end : g + stretch;
        for (int m = 0; m < count;) {
            const int rows = count - m < quant_rows_max ? count - m : quant_rows_max;
            quant_rows<quant_rows_max, tiles, kind>(s, rows);
            s.prefetch_distance = 0;  // the first pass over the rows has prefetched all
            s.offsets += rows * s.offset_stride;
            s.q += rows * s.cols;
            s.x_scales += rows * s.groups;
            s.x_sums += rows * s.groups;
            s.y += static_cast<std::size_t>(rows) * s.ldy;
            m += rows;
        }
    }
}

SIMD_INLINE int real_lanes(const packed_matrix& w, int tile) {
    const int left = w.rows - tile * lane_count;
    return left < lane_count ? left : lane_count;
}

/// All of w against all of x.
SIMD quant_span whole_span(const packed_matrix& w, const quantized_rows& x, std::size_t ldy) {
    quant_span s{};
    s.tile_bytes = w.tile_bytes();
    s.record_bytes = w.record_bytes();
    s.scale_bytes = lane_count * (w.scales == scale_kind::f32 ? 4 : 2);
    s.scales = w.scales;
    s.groups = w.cols / group_size;
    s.cols = w.cols;
    s.group_end = s.groups;
    s.q = x.q;
    s.x_scales = x.scales;
    s.x_sums = x.sums;
    s.ldy = ldy;
    return s;
}

template <weight_kind kind>
SIMD void quant_kind(const packed_matrix& w, int tile_begin, int tile_end, quant_span s, int count,
                     float* y) {
    for (int tile = tile_begin; tile < tile_end;) {
        const int tiles = tile_end - tile < quant_tiles ? 1 : quant_tiles;
        s.tile = w.data + static_cast<std::size_t>(tile) * s.tile_bytes;
        s.y = y + static_cast<std::size_t>(tile) * lane_count;
        s.lanes_last = real_lanes(w, tile + tiles - 1);
        s.prefetch_distance = static_cast<std::size_t>(tiles) * s.tile_bytes;
        if (tiles == 1) {
            quant_tiles_of<1, kind>(s, count);
        } else {
            quant_tiles_of<quant_tiles, kind>(s, count);
        }
        tile += tiles;
    }
}

/// -`by` * Σ q for each half of a group: `halves` of them, an even number.
SIMD void half_offsets(const std::int8_t* q, index halves, int by, std::int32_t* out) {
    const __m256i zero = _mm256_setzero_si256(), flip = _mm256_set1_epi8(-128);
    for (index i = 0; i < halves; i += 4, q += 4 * mxfp4_half) {
        __m256i sums[4];  // of q + 128, 8 elements to a 64-bit word
#pragma GCC unroll 4
        for (int k = 0; k < 4; ++k) {
            const auto* at = reinterpret_cast<const __m256i*>(q + k * mxfp4_half);
            const __m256i x = i + k < halves ? _mm256_loadu_si256(at) : zero;
            sums[k] = _mm256_sad_epu8(_mm256_xor_si256(x, flip), zero);
        }
        const __m256i a = _mm256_or_si256(sums[0], _mm256_slli_epi64(sums[1], 32));
        const __m256i b = _mm256_or_si256(sums[2], _mm256_slli_epi64(sums[3], 32));
        const __m256i pairs =
            _mm256_add_epi32(_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b));
        const __m128i total =
            _mm_add_epi32(_mm256_castsi256_si128(pairs), _mm256_extracti128_si256(pairs, 1));
        const __m128i negative = _mm_sub_epi32(_mm_set1_epi32(128 * mxfp4_half), total);
        const __m128i offsets = _mm_mullo_epi32(negative, _mm_set1_epi32(by));
        if (i + 4 <= halves) {
            _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i), offsets);
        } else {
            _mm_storel_epi64(reinterpret_cast<__m128i*>(out + i), offsets);
        }
    }
}

/// linear_quant for weights that are multiplied as integers `by` higher than they are. In passes
/// over as many rows, or over as much of one row, as 32 KB of offsets cover.
template <weight_kind kind>
SIMD void linear_offset(const packed_matrix& w, int tile_begin, int tile_end,
                        const quantized_rows& x, int by, int count, float* y, std::size_t ldy) {
    constexpr index groups_max = 4096;
    std::int32_t offsets[2 * groups_max];
    const quant_span all = whole_span(w, x, ldy);
    const index chunk = all.groups < groups_max ? all.groups : groups_max;
    const index pass = chunk == 0 ? count : groups_max / chunk;
    for (index g = 0; g < all.groups; g += chunk) {
        for (index m = 0; m < count; m += pass) {
            quant_span s = all;
            s.group_begin = g;
            s.group_end = all.groups - g < chunk ? all.groups : g + chunk;
            s.offset_group = g;
            s.offset_stride = 2 * (s.group_end - g);
            s.offsets = offsets;
            s.q = x.q + m * all.cols;
            s.x_scales = x.scales + m * all.groups;
            s.x_sums = x.sums + m * all.groups;
            const index rows = count - m < pass ? count - m : pass;
            half_offsets(s.q + g * group_size, rows * s.offset_stride, by, offsets);
            quant_kind<kind>(w, tile_begin, tile_end, s, static_cast<int>(rows),
                             y + static_cast<std::size_t>(m) * ldy);
        }
    }
}

void linear_blocks(const packed_matrix& w, int tile_begin, int tile_end, const quantized_rows& x,
                   int count, float* y, std::size_t ldy);  // linear_unpacked.inl

SIMD void linear_quant(const packed_matrix& w, int tile_begin, int tile_end,
                       const quantized_rows& x, int count, float* y, std::size_t ldy) {
    if (is_block_kind(w.kind)) {
        linear_blocks(w, tile_begin, tile_end, x, count, y, ldy);
    } else if (w.kind == weight_kind::mxfp4) {
        linear_offset<weight_kind::mxfp4>(w, tile_begin, tile_end, x, mxfp4_offset, count, y, ldy);
    } else if (w.kind == weight_kind::q4) {
        quant_kind<weight_kind::q4>(w, tile_begin, tile_end, whole_span(w, x, ldy), count, y);
    } else if constexpr (byte_offset != 0) {
        linear_offset<weight_kind::q8>(w, tile_begin, tile_end, x, byte_offset, count, y, ldy);
    } else {
        quant_kind<weight_kind::q8>(w, tile_begin, tile_end, whole_span(w, x, ldy), count, y);
    }
}

template <weight_kind kind>
SIMD_INLINE v16 load_weights(const std::byte* at) {
    if constexpr (kind == weight_kind::f32) {
        return load(reinterpret_cast<const float*>(at));
    } else if constexpr (kind == weight_kind::f16) {
        return load_half(at);
    } else {
        return load_bfloat(at);
    }
}

/// As quant_span, for float weights.
struct float_span {
    const std::byte* tile;
    std::size_t tile_bytes;
    index cols, begin, end;  // inputs [begin, end) of cols
    const float* x;
    float* y;
    std::size_t ldy;
    int lanes_last;
    std::size_t prefetch_distance;  // as in quant_span
};

template <int rows, int tiles, weight_kind kind>
SIMD void float_block(const float_span& s) {
    constexpr index step = lane_count * (kind == weight_kind::f32 ? 4 : 2);
    v16 sums[rows][tiles];
#pragma GCC unroll 16
    for (int m = 0; m < rows; ++m) {
#pragma GCC unroll 4
        for (int t = 0; t < tiles; ++t) {
            sums[m][t] = start_or_resume(s.begin > 0,
                                         s.y + static_cast<std::size_t>(m) * s.ldy + t * lane_count,
                                         t == tiles - 1 ? s.lanes_last : lane_count);
        }
    }
    for (index k = s.begin; k < s.end; ++k) {
        v16 w[tiles];
#pragma GCC unroll 4
        for (int t = 0; t < tiles; ++t) {
            const std::byte* at = s.tile + static_cast<std::size_t>(t) * s.tile_bytes + k * step;
            if (s.prefetch_distance > 0) __builtin_prefetch(at + s.prefetch_distance, 0, 2);
            w[t] = load_weights<kind>(at);
        }
#pragma GCC unroll 16
        for (int m = 0; m < rows; ++m) {
            const v16 a = set1(s.x[m * s.cols + k]);
#pragma GCC unroll 4
            for (int t = 0; t < tiles; ++t) {
                sums[m][t] = fma(w[t], a, sums[m][t]);
            }
        }
    }
#pragma GCC unroll 16
    for (int m = 0; m < rows; ++m) {
#pragma GCC unroll 4
        for (int t = 0; t < tiles; ++t) {
            store_first(s.y + static_cast<std::size_t>(m) * s.ldy + t * lane_count,
                        t == tiles - 1 ? s.lanes_last : lane_count, sums[m][t]);
        }
    }
}

template <int rows, int tiles, weight_kind kind>
SIMD_INLINE void float_rows(const float_span& s, int count) {
    if constexpr (rows > 0) {
        if (count == rows) {
            float_block<rows, tiles, kind>(s);
        } else {
            float_rows<rows - 1, tiles, kind>(s, count);
        }
    }
}

template <int tiles, weight_kind kind>
SIMD void float_tiles_of(const float_span& all, int count) {
    if (count <= float_rows_max) {  // no copy, as in quant_tiles_of
        float_rows<float_rows_max, tiles, kind>(all, count);
        return;
    }
    const index stretch = 128;  // four tiles of them: 32 KB of f32
    for (index k = 0; k < all.cols; k += stretch) {
        float_span s = all;
        s.begin = k;
        s.end = all.cols - k < stretch ? all.cols : k + stretch;
        for (int m = 0; m < count;) {
            const int rows = count - m < float_rows_max ? count - m : float_rows_max;
            float_rows<float_rows_max, tiles, kind>(s, rows);
            s.prefetch_distance = 0;
            s.x += rows * s.cols;
            s.y += static_cast<std::size_t>(rows) * s.ldy;
            m += rows;
        }
    }
}

template <weight_kind kind>
SIMD void float_kind(const packed_matrix& w, int tile_begin, int tile_end, const float* x,
                     int count, float* y, std::size_t ldy) {
    float_span s{w.data, w.tile_bytes(), w.cols, 0, w.cols, x, y, ldy, lane_count, 0};
    for (int tile = tile_begin; tile < tile_end;) {
        const int tiles = tile_end - tile < float_tiles ? 1 : float_tiles;
        s.tile = w.data + static_cast<std::size_t>(tile) * s.tile_bytes;
        s.y = y + static_cast<std::size_t>(tile) * lane_count;
        s.lanes_last = real_lanes(w, tile + tiles - 1);
        s.prefetch_distance = static_cast<std::size_t>(tiles) * s.tile_bytes;
        if (tiles == 1) {
            float_tiles_of<1, kind>(s, count);
        } else {
            float_tiles_of<float_tiles, kind>(s, count);
        }
        tile += tiles;
    }
}

SIMD void linear_float(const packed_matrix& w, int tile_begin, int tile_end, const float* x,
                       int count, float* y, std::size_t ldy) {
    if (w.kind == weight_kind::f32) {
        float_kind<weight_kind::f32>(w, tile_begin, tile_end, x, count, y, ldy);
    } else if (w.kind == weight_kind::f16) {
        float_kind<weight_kind::f16>(w, tile_begin, tile_end, x, count, y, ldy);
    } else {
        float_kind<weight_kind::bf16>(w, tile_begin, tile_end, x, count, y, ldy);
    }
}

SIMD float read_scale(const std::byte* at, scale_kind kind, int lane) {
    float lanes[lane_count];
    store(lanes, load_scales(at, kind));
    return lanes[lane];
}

SIMD void embed_quant(const packed_matrix& w, const std::byte* tile, int lane, float* out) {
    const std::size_t scale_bytes = lane_count * (w.scales == scale_kind::f32 ? 4 : 2);
    for (int g = 0; g < w.cols / group_size; ++g) {
        const std::byte* record = tile + static_cast<std::size_t>(g) * w.record_bytes();
        const float scale = read_scale(record, w.scales, lane);
        const float bias = read_scale(record + scale_bytes, w.scales, lane);
        const auto* q = reinterpret_cast<const std::uint8_t*>(record + 2 * scale_bytes) + lane * 4;
        float* to = out + g * group_size;
        for (int j = 0; j < (w.kind == weight_kind::q8 ? 16 : 8); ++j) {
            for (int i = 0; i < 4; ++i) {
                const unsigned byte = q[j * 64 + i];
                if (w.kind == weight_kind::q8) {
                    to[4 * j + i] = __builtin_fmaf(scale, static_cast<float>(byte), bias);
                } else {
                    to[4 * j + i] = __builtin_fmaf(scale, static_cast<float>(byte & 15u), bias);
                    to[32 + 4 * j + i] = __builtin_fmaf(scale, static_cast<float>(byte >> 4), bias);
                }
            }
        }
    }
}

SIMD void embed_mxfp4(const packed_matrix& w, const std::byte* tile, int lane, float* out) {
    for (index block = 0; block < w.cols / mxfp4_half; ++block, out += mxfp4_half) {
        const auto* record = reinterpret_cast<const std::uint8_t*>(tile) +
                             block / 2 * static_cast<index>(w.record_bytes());
        const float unit = mxfp4_unit(record[block % 2 * lane_count + lane]);
        const std::uint8_t* codes = record + 2 * lane_count + block % 2 * 256 + lane * 4;
        for (int k = 0; k < mxfp4_half / 2; ++k) {
            const unsigned pair = codes[k / 4 * 64 + k % 4];
            out[k] = unit * static_cast<float>(mxfp4_levels[pair & 15u] - mxfp4_offset);
            out[16 + k] = unit * static_cast<float>(mxfp4_levels[pair >> 4] - mxfp4_offset);
        }
    }
}

SIMD void embed_row(const packed_matrix& w, int row, float* out) {
    const std::byte* tile = w.data + static_cast<std::size_t>(row / lane_count) * w.tile_bytes();
    const int lane = row % lane_count;
    if (is_block_kind(w.kind)) {
        embed_block_row(w, row, out);
        return;
    }
    if (w.kind == weight_kind::mxfp4) {
        embed_mxfp4(w, tile, lane, out);
        return;
    }
    if (w.quantized()) {
        embed_quant(w, tile, lane, out);
        return;
    }
    for (index k = 0; k < w.cols; ++k) {
        const index at = k * lane_count + lane;
        if (w.kind == weight_kind::f32) {
            out[k] = reinterpret_cast<const float*>(tile)[at];
        } else {
            const half bits = reinterpret_cast<const half*>(tile)[at];
            out[k] = w.kind == weight_kind::f16 ? to_float(bits) : bfloat_to_float(bits);
        }
    }
}
