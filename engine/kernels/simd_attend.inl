// Attention over one packed frame. See simd_elements.inl for how this is used.
// 16 tokens of keys become one tile whose lanes are tokens, read by all query rows; few rows
// multiply keys as they lie and fold the sums. Scores and softmax run over lanes of tokens. 4-bit
// values are brought into an order in which integers add 4 tokens at once, others are widened to
// floats, 64 tokens at a time for all rows.

/// Where the parts of the scratch lie, as attention_scratch_floats counts them.
struct attend_parts {
    index stride;   // tokens of a row of scores, a multiple of 64
    float* scores;  // [count][stride], then the weights p
    float* out;     // [count][v.dim padded]
    index out_stride;
    softmax_state* states;  // [count]
    int* ranges;            // [row tiles][2], see row_tiles
    std::int8_t* q;         // [count][k.dim], in the order of the key tile
    float* keys;            // key tile: [k.dim / 4][16 tokens][4] bytes, or [k.dim][16] floats
    float* key_scales;      // [groups][16], then biases [groups][16]
    float* value_scales;    // at 4 bit [groups][stride], else [tokens, groups]; then biases alike
    std::int32_t* flips;    // at 4 bit [groups][stride]: all ones where a scale is negative
    float* values;          // [64][v.dim padded], at 4 bit [16][64][4] bytes of one group
    std::uint8_t* levels;   // at 4 bit [count][stride], the rounded weights of one group
    float* units;           // at 4 bit [count][stride / 64]: what a level stands for
    int begin, end;         // tokens that any row sees
    int first, last;        // the same in whole tiles: of 64 tokens at 4 bit, else of 16
};

SIMD_INLINE index padded(index n, index to = 16) { return (n + to - 1) / to * to; }

SIMD attend_parts divide_scratch(const attention_block& block) {
    attend_parts s{};
    s.stride = padded(block.tokens, attention_value_tokens);
    s.out_stride = padded(block.v.dim);
    s.scores = block.scratch;
    s.out = s.scores + block.count * s.stride;
    float* rows = s.out + block.count * s.out_stride;
    s.states = reinterpret_cast<softmax_state*>(rows);
    s.ranges = reinterpret_cast<int*>(rows + 2 * block.count);
    s.q = reinterpret_cast<std::int8_t*>(rows + 16 * block.count);
    const index k_dim = padded(block.k.dim);
    s.keys = rows + block.count * (16 + k_dim);
    s.key_scales = s.keys + 16 * k_dim;
    s.value_scales = s.key_scales + k_dim;
    const index scales = s.stride * ((block.v.dim + group_size - 1) / group_size);
    s.flips = reinterpret_cast<std::int32_t*>(s.value_scales + 2 * scales);
    s.values = s.value_scales + 3 * scales;
    s.units = s.values + attention_value_tokens * s.out_stride;
    s.levels = reinterpret_cast<std::uint8_t*>(
        s.units + padded(block.count * (s.stride / attention_value_tokens)));
    s.begin = block.tokens;
    for (int r = 0; r < block.count; ++r) {
        if (block.begin[r] < block.end[r]) {
            s.begin = block.begin[r] < s.begin ? block.begin[r] : s.begin;
            s.end = block.end[r] > s.end ? block.end[r] : s.end;
        }
    }
    const int tile = block.v.bits == 4 ? attention_value_tokens : lane_count;
    s.first = s.begin / tile * tile;
    s.last = (s.end + tile - 1) / tile * tile;
    return s;
}

/// `count` rows cut into tiles of nearly equal size, at most `most` rows each.
struct row_tiles {
    int count, tiles;
    const int* ranges;  // [tiles][2]
    int first(int tile) const { return static_cast<int>(static_cast<index>(tile) * count / tiles); }
    int rows(int tile) const { return first(tile + 1) - first(tile); }
    /// Narrows [from, to) to what a tile of rows sees. Returns: whether that is anything.
    bool narrow(int tile, int& from, int& to) const {
        from = ranges[2 * tile] > from ? ranges[2 * tile] : from;
        to = ranges[2 * tile + 1] < to ? ranges[2 * tile + 1] : to;
        return from < to;
    }
};

SIMD row_tiles cut_rows(const attention_block& block, int most, int* ranges) {
    const row_tiles cut{block.count, (block.count + most - 1) / most, ranges};
    for (int tile = 0; tile < cut.tiles; ++tile) {
        int begin = block.tokens, end = 0;
        for (int r = cut.first(tile); r < cut.first(tile + 1); ++r) {
            if (block.begin[r] < block.end[r]) {
                begin = block.begin[r] < begin ? block.begin[r] : begin;
                end = block.end[r] > end ? block.end[r] : end;
            }
        }
        ranges[2 * tile] = begin;
        ranges[2 * tile + 1] = end;
    }
    return cut;
}

/// Queries in the byte order of the key tile: at 4 bit each 8 elements as 0 2 4 6 1 3 5 7, because
/// the even elements of a packed word are its low nibbles.
SIMD void order_queries(const attention_block& block, std::int8_t* out) {
    const index bytes = static_cast<index>(block.count) * block.k.dim;
    const __m128i evens_first = _mm_setr_epi8(0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15);
    for (index i = 0; i < bytes; i += 16) {
        __m128i x = _mm_loadu_si128(reinterpret_cast<const __m128i*>(block.q.q + i));
        x = block.k.bits == 4 ? _mm_shuffle_epi8(x, evens_first) : x;
        _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i), x);
    }
}

/// Queries for score_few: of each 64 elements first the even ones, which are the low nibbles of a
/// packed row, then the odd ones.
SIMD void split_queries(const attention_block& block, std::int8_t* out) {
    const index bytes = static_cast<index>(block.count) * block.k.dim;
    const __m128i evens_first = _mm_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15);
    for (index i = 0; i < bytes; i += group_size) {
        __m128i x[4];
#pragma GCC unroll 4
        for (int k = 0; k < 4; ++k) {
            const auto* from = reinterpret_cast<const __m128i*>(block.q.q + i + 16 * k);
            x[k] = _mm_shuffle_epi8(_mm_loadu_si128(from), evens_first);
        }
        auto* to = reinterpret_cast<__m128i*>(out + i);
        _mm_storeu_si128(to, _mm_unpacklo_epi64(x[0], x[1]));
        _mm_storeu_si128(to + 1, _mm_unpacklo_epi64(x[2], x[3]));
        _mm_storeu_si128(to + 2, _mm_unpackhi_epi64(x[0], x[1]));
        _mm_storeu_si128(to + 3, _mm_unpackhi_epi64(x[2], x[3]));
    }
}

/// The scales (or biases) of the tokens from t0 as [groups][16]; tokens past the end repeat the
/// last. `stride` scales lie between one token and the next.
SIMD void tile_scales(const half* from, int groups, int stride, int t0, int tokens, float* out) {
    const half* rows = from + static_cast<index>(t0) * stride;
    for (int g = 0; g < groups; ++g) {
        if (stride == groups && t0 + lane_count <= tokens) {
            store(out + g * lane_count,
                  groups == 1 ? load_half(rows) : load_half_strided(rows, groups, g));
            continue;
        }
        half buffer[lane_count];
        for (int i = 0; i < lane_count; ++i) {
            buffer[i] = rows[(t0 + i < tokens ? i : tokens - 1 - t0) * stride + g];
        }
        store(out + g * lane_count, load_half(buffer));
    }
}

/// Keys of the tokens [t0, t0 + 16) with the token as lane. Tokens past the end repeat the last
/// one.
SIMD void load_key_tile(const attention_block& block, int t0, const attend_parts& s) {
    const kv_rows& k = block.k;
    const index row_bytes = static_cast<index>(k.dim) * k.bits / 8;
    const std::byte* at[lane_count];
    for (int i = 0; i < lane_count; ++i) {
        const int token = t0 + i < block.tokens ? t0 + i : block.tokens - 1;
        at[i] = k.rows + static_cast<std::size_t>(token) * k.row_bytes;
    }
    auto* out = reinterpret_cast<std::byte*>(s.keys);
    const index step = k.bits == 16 ? 16 : 32;  // bytes that hold 8 words of a transposed tile
    for (index offset = 0; offset < row_bytes; offset += step) {
        i16 words[8];
#pragma GCC unroll 8
        for (int i = 0; i < 8; ++i) {
            words[i] = k.bits == 16 ? load_halves_widened(at[i] + offset, at[i + 8] + offset)
                                    : load_halves(at[i] + offset, at[i + 8] + offset);
        }
        transpose8(words);
#pragma GCC unroll 8
        for (int i = 0; i < 8; ++i) {
            if (k.bits == 4) {
                store_words(out, low_nibbles(words[i]));
                store_words(out + 64, high_nibbles(words[i]));
                out += 128;
            } else {
                store_words(out, words[i]);
                out += 64;
            }
        }
    }
    if (k.bits != 16) {
        const int groups = k.dim / group_size;
        tile_scales(k.scales, groups, k.row_scales, t0, block.tokens, s.key_scales);
        tile_scales(k.biases, groups, k.row_scales, t0, block.tokens,
                    s.key_scales + groups * lane_count);
    }
}

/// Few rows wait for memory: asks early for what the weighted sum will read.
SIMD_INLINE void ask_for(const void* from, index bytes) {
    for (index i = 0; i < bytes; i += 64) {
        __builtin_prefetch(static_cast<const std::byte*>(from) + i);
    }
}

/// Scores of few rows against 16 tokens of 4-bit keys, without a key tile: the products of a token
/// are added up within its half of a register, and 16 such sums are folded together.
template <int rows>
SIMD void score_few(const attention_block& block, int t0, const attend_parts& s) {
    const kv_rows& k = block.k;
    const index groups = k.dim / group_size, row_bytes = static_cast<index>(k.row_bytes);
    const bool plain = k.row_scales == 1 && t0 + lane_count <= block.tokens;
    if (!plain) {
        const int count = static_cast<int>(groups);
        tile_scales(k.scales, count, k.row_scales, t0, block.tokens, s.key_scales);
        tile_scales(k.biases, count, k.row_scales, t0, block.tokens,
                    s.key_scales + groups * lane_count);
    }
    v16 sums[rows];
#pragma GCC unroll 4
    for (int m = 0; m < rows; ++m) {
        sums[m] = set1(0.0f);
    }
    const int last = block.tokens - 1;
    for (index g = 0; g < groups; ++g) {
        const std::byte* group = k.rows + g * (group_size / 2);
        i16 low[8], high[8];
#pragma GCC unroll 8
        for (int i = 0; i < 8; ++i) {
            const index a = t0 + i < last ? t0 + i : last;
            const index b = t0 + 8 + i < last ? t0 + 8 + i : last;
            const i16 packed = load_halves(group + a * row_bytes, group + b * row_bytes);
            low[i] = low_nibbles(packed);
            high[i] = high_nibbles(packed);
        }
        const v16 scale = plain ? load_half(k.scales + t0) : load(s.key_scales + g * lane_count);
        const v16 bias =
            plain ? load_half(k.biases + t0) : load(s.key_scales + (groups + g) * lane_count);
#pragma GCC unroll 4
        for (int m = 0; m < rows; ++m) {
            const std::int8_t* q = s.q + m * k.dim + g * group_size;
            const i16 evens = load_halves(q, q), odds = load_halves(q + 32, q + 32);
            i16 dots[8];
#pragma GCC unroll 8
            for (int i = 0; i < 8; ++i) {
                dot_sum<true> sum;
                clear(sum);
                add_products(sum, low[i], evens);
                add_products(sum, high[i], odds);
                carry(sum);
                dots[i] = sum.words;
            }
            const float q_scale = block.q.scales[m * groups + g];
            sums[m] = fma(bias, set1(block.q.sums[m * groups + g]), sums[m]);
            sums[m] = fma(mul(scale, set1(q_scale)), to_floats(fold_halves(dots)), sums[m]);
        }
    }
#pragma GCC unroll 4
    for (int m = 0; m < rows; ++m) {
        store(s.scores + m * s.stride + t0, mul(set1(block.scale), sums[m]));
    }
}

template <int rows>
SIMD_INLINE void score_few_rows_of(const attention_block& block, int t0, const attend_parts& s) {
    if constexpr (rows > 0) {
        if (block.count == rows) {
            score_few<rows>(block, t0, s);
        } else {
            score_few_rows_of<rows - 1>(block, t0, s);
        }
    }
}

/// Scores of `rows` rows from `r` against the integer key tile.
template <int rows, bool four_bit>
SIMD void score_rows(const attention_block& block, const attend_parts& s, int r, float* out) {
    constexpr int chains = rows <= score_chains_rows ? 2 : 1;  // few rows wait for their own sums
    const index groups = block.k.dim / group_size;
    const std::int8_t* q = s.q + static_cast<index>(r) * block.k.dim;
    const float* q_scales = block.q.scales + r * groups;
    const float* q_sums = block.q.sums + r * groups;
    const auto* keys = reinterpret_cast<const std::byte*>(s.keys);
    v16 sums[rows];
#pragma GCC unroll 16
    for (int m = 0; m < rows; ++m) {
        sums[m] = set1(0.0f);
    }
    for (index g = 0; g < groups; ++g, q += group_size) {
        dot_sum<four_bit> dots[rows][chains];
#pragma GCC unroll 16
        for (int m = 0; m < rows; ++m) {
            clear(dots[m][0]);
            clear(dots[m][chains - 1]);
        }
#pragma GCC unroll 16
        for (int j = 0; j < 16; ++j, keys += 64) {
            const i16 k = load_words(keys);
#pragma GCC unroll 16
            for (int m = 0; m < rows; ++m) {
                dot_sum<four_bit>& sum = dots[m][j % chains];
                add_products(sum, k, set1_word(q + m * block.k.dim + 4 * j));
                if (j % 8 == 7 || (j % 8 == 6 && chains == 2)) {
                    carry(sum);
                }
            }
        }
        const v16 scale = load(s.key_scales + g * lane_count);
        const v16 bias = load(s.key_scales + (groups + g) * lane_count);
#pragma GCC unroll 16
        for (int m = 0; m < rows; ++m) {
            const i16 dot_of_row =
                chains == 2 ? add(dots[m][0].words, dots[m][1].words) : dots[m][0].words;
            sums[m] = fma(bias, set1(q_sums[m * groups + g]), sums[m]);
            const v16 both = mul(scale, set1(q_scales[m * groups + g]));
            sums[m] = fma(both, to_floats(dot_of_row), sums[m]);
        }
    }
#pragma GCC unroll 16
    for (int m = 0; m < rows; ++m) {
        store(out + m * s.stride, mul(set1(block.scale), sums[m]));
    }
}

/// The same against the float key tile of 16-bit keys.
template <int rows>
SIMD void score_float_rows(const attention_block& block, const attend_parts& s, int r, float* out) {
    const float* q = block.queries + static_cast<index>(r) * block.k.dim;
    v16 sums[rows];
#pragma GCC unroll 16
    for (int m = 0; m < rows; ++m) {
        sums[m] = set1(0.0f);
    }
    for (index d = 0; d < block.k.dim; ++d) {
        const v16 k = load(s.keys + d * lane_count);
#pragma GCC unroll 16
        for (int m = 0; m < rows; ++m) {
            sums[m] = fma(set1(q[m * block.k.dim + d]), k, sums[m]);
        }
    }
#pragma GCC unroll 16
    for (int m = 0; m < rows; ++m) {
        store(out + m * s.stride, mul(set1(block.scale), sums[m]));
    }
}

template <int rows>
SIMD_INLINE void score_tile(const attention_block& block, const attend_parts& s, int r, int count,
                            float* out) {
    if constexpr (rows > 0) {
        if (count != rows) {
            score_tile<rows - 1>(block, s, r, count, out);
        } else if (block.k.bits == 16) {
            score_float_rows<rows>(block, s, r, out);
        } else if (block.k.bits == 4) {
            score_rows<rows, true>(block, s, r, out);
        } else {
            score_rows<rows, false>(block, s, r, out);
        }
    }
}

SIMD void score_all(const attention_block& block, const attend_parts& s) {
    if (block.k.bits == 4 && block.count <= score_few_rows) {
        const kv_rows &k = block.k, &v = block.v;
        const index seen = s.end - s.begin;
        const index half_row = static_cast<index>(sizeof(half));
        ask_for(k.scales + s.begin * k.row_scales, seen * k.row_scales * half_row);
        ask_for(k.biases + s.begin * k.row_scales, seen * k.row_scales * half_row);
        ask_for(v.scales + s.begin * v.row_scales, seen * v.row_scales * half_row);
        ask_for(v.biases + s.begin * v.row_scales, seen * v.row_scales * half_row);
        split_queries(block, s.q);
        for (int t0 = s.begin / lane_count * lane_count; t0 < s.end; t0 += lane_count) {
            const index row_bytes = static_cast<index>(v.row_bytes);
            ask_for(v.rows + t0 * row_bytes, lane_count * row_bytes);
            score_few_rows_of<score_few_rows>(block, t0, s);
        }
        return;
    }
    if (block.k.bits != 16) {
        order_queries(block, s.q);
    }
    const row_tiles cut = cut_rows(block, score_rows_max, s.ranges);
    for (int t0 = s.begin / lane_count * lane_count; t0 < s.end; t0 += lane_count) {
        load_key_tile(block, t0, s);
        for (int tile = 0; tile < cut.tiles; ++tile) {
            int from = t0, to = t0 + lane_count;
            if (cut.narrow(tile, from, to)) {
                const int r = cut.first(tile);
                score_tile<score_rows_max>(block, s, r, cut.rows(tile),
                                           s.scores + r * s.stride + t0);
            }
        }
    }
}

/// Scores -> p in place, over the tiles [s.first, s.last); hidden tokens get 0.
SIMD softmax_state softmax_row(float* scores, int begin, int end, const attend_parts& s) {
    const v16 lowest = set1(-__builtin_inff());
    const int first = begin / lane_count * lane_count;
    v16 peaks = lowest;
    for (int t = first; t < end; t += lane_count) {
        const v16 score = load(scores + t);
        const bool all = t >= begin && t + lane_count <= end;
        peaks = max(peaks, all ? score : keep(score, begin - t, end - t, lowest));
    }
    const float peak = largest(peaks);
    v16 sums = set1(0.0f);
    int t = s.first;
    for (; t < first && t < s.last; t += lane_count) {
        store(scores + t, set1(0.0f));
    }
    for (; t < end; t += lane_count) {
        const v16 p = exp_not_above_0(sub(load(scores + t), set1(peak)));
        const bool all = t >= begin && t + lane_count <= end;
        const v16 visible = all ? p : keep(p, begin - t, end - t, set1(0.0f));
        sums = add(sums, visible);
        store(scores + t, visible);
    }
    for (; t < s.last; t += lane_count) {
        store(scores + t, set1(0.0f));
    }
    return {peak, fold(sums)};
}

/// Widens `count` halves.
SIMD void widen_halves(const half* from, index count, float* out) {
    index i = 0;
    for (; i + lane_count <= count; i += lane_count) {
        store(out + i, load_half(from + i));
    }
    if (i < count) {
        half buffer[lane_count] = {};
        __builtin_memcpy(buffer, from + i, static_cast<std::size_t>(count - i) * sizeof(half));
        store_first(out + i, static_cast<int>(count - i), load_half(buffer));
    }
}

/// Scales and biases of the values of all seen tokens as floats, without gaps.
SIMD void widen_value_scales(const kv_rows& v, const attend_parts& s) {
    const index groups = v.dim / group_size;
    const index step = v.row_scales == groups ? s.end - s.begin : 1;  // tokens widened at once
    float* biases = s.value_scales + s.stride * groups;
    for (index t = s.begin; t < s.end; t += step) {
        const index from = t * v.row_scales, to = t * groups;
        widen_halves(v.scales + from, step * groups, s.value_scales + to);
        widen_halves(v.biases + from, step * groups, biases + to);
    }
}

template <int bits>
SIMD_INLINE group_values<bits> values_of(const kv_rows& v, const attend_parts& s, index t,
                                         index group) {
    if constexpr (bits == 16) {
        return {};
    } else {
        const index groups = v.dim / group_size, at = t * groups + group;
        return make_values<bits>(s.value_scales[at], s.value_scales[s.stride * groups + at]);
    }
}

/// Values of the tokens [from, to) as floats, one token after another, in lane order.
template <int bits>
SIMD void widen_values(const kv_rows& v, const attend_parts& s, int from, int to) {
    float* out = s.values;
    for (index t = from; t < to; ++t, out += s.out_stride) {
        const std::byte* row = v.rows + static_cast<std::size_t>(t) * v.row_bytes;
        for (index d = 0; d < v.dim;) {
            const group_values<bits> values = values_of<bits>(v, s, t, d / group_size);
            const index end = v.dim - d < group_size ? v.dim : d + group_size;
            for (; d < end; d += lane_count) {
                store(out + d, take_values<bits>(row + d * bits / 8, values));
            }
        }
    }
}

/// out[m, 0 .. lanes*16) += p[m, t] * values[t], t ascending.
template <int rows, int lanes>
SIMD void weigh_values(const float* p, index p_stride, const float* values, index v_stride,
                       int tokens, float* out) {
    v16 sums[rows][lanes];
#pragma GCC unroll 16
    for (int m = 0; m < rows; ++m) {
#pragma GCC unroll 4
        for (int i = 0; i < lanes; ++i) {
            sums[m][i] = load(out + m * v_stride + i * lane_count);
        }
    }
    for (int t = 0; t < tokens; ++t, values += v_stride) {
        v16 v[lanes];
#pragma GCC unroll 4
        for (int i = 0; i < lanes; ++i) {
            v[i] = load(values + i * lane_count);
        }
#pragma GCC unroll 16
        for (int m = 0; m < rows; ++m) {
            const v16 weight = set1(p[m * p_stride + t]);
#pragma GCC unroll 4
            for (int i = 0; i < lanes; ++i) {
                sums[m][i] = fma(weight, v[i], sums[m][i]);
            }
        }
    }
#pragma GCC unroll 16
    for (int m = 0; m < rows; ++m) {
#pragma GCC unroll 4
        for (int i = 0; i < lanes; ++i) {
            store(out + m * v_stride + i * lane_count, sums[m][i]);
        }
    }
}

template <int rows, int lanes>
SIMD_INLINE void weigh_rows(const float* p, const attend_parts& s, const float* values, int tokens,
                            float* out, int count) {
    if constexpr (rows > 0) {
        if (count == rows) {
            weigh_values<rows, lanes>(p, s.stride, values, s.out_stride, tokens, out);
        } else {
            weigh_rows<rows - 1, lanes>(p, s, values, tokens, out, count);
        }
    }
}

/// Many rows: values are widened once for all of them.
template <int bits>
SIMD void weigh_widened(const attention_block& block, const attend_parts& s) {
    const row_tiles cut = cut_rows(block, value_rows_max, s.ranges);
    for (int t0 = s.begin; t0 < s.end; t0 += attention_value_tokens) {
        const int t1 = s.end - t0 < attention_value_tokens ? s.end : t0 + attention_value_tokens;
        widen_values<bits>(block.v, s, t0, t1);
        for (int tile = 0; tile < cut.tiles; ++tile) {
            int from = t0, to = t1;
            if (!cut.narrow(tile, from, to)) {
                continue;
            }
            const int r = cut.first(tile), rows = cut.rows(tile);
            const float* p = s.scores + r * s.stride + from;
            const float* values = s.values + (from - t0) * s.out_stride;
            float* out = s.out + r * s.out_stride;
            index d = 0;
            for (; d + value_lanes * lane_count <= block.v.dim; d += value_lanes * lane_count) {
                weigh_rows<value_rows_max, value_lanes>(p, s, values + d, to - from, out + d, rows);
            }
            for (; d < block.v.dim; d += lane_count) {
                weigh_rows<value_rows_max, 1>(p, s, values + d, to - from, out + d, rows);
            }
        }
    }
}

/// out[m, d .. d + lanes*16) = Σ p[m, t] * v[t] over [from, to), straight from the packed values.
template <int rows, int lanes, int bits>
SIMD void weigh_packed(const kv_rows& v, const attend_parts& s, int r, int from, int to, index d) {
    const auto row_bytes = static_cast<index>(v.row_bytes);
    const std::byte* at = v.rows + from * row_bytes + d * bits / 8;
    const float* p = s.scores + r * s.stride;
    v16 sums[rows][lanes];
#pragma GCC unroll 16
    for (int m = 0; m < rows; ++m) {
#pragma GCC unroll 4
        for (int i = 0; i < lanes; ++i) {
            sums[m][i] = set1(0.0f);
        }
    }
    for (index t = from; t < to; ++t, at += row_bytes) {
        const group_values<bits> values = values_of<bits>(v, s, t, d / group_size);
        v16 x[lanes];
#pragma GCC unroll 4
        for (int i = 0; i < lanes; ++i) {
            x[i] = take_values<bits>(at + i * lane_count * bits / 8, values);
        }
#pragma GCC unroll 16
        for (int m = 0; m < rows; ++m) {
            const v16 weight = set1(p[m * s.stride + t]);
#pragma GCC unroll 4
            for (int i = 0; i < lanes; ++i) {
                sums[m][i] = fma(weight, x[i], sums[m][i]);
            }
        }
    }
#pragma GCC unroll 16
    for (int m = 0; m < rows; ++m) {
#pragma GCC unroll 4
        for (int i = 0; i < lanes; ++i) {
            store(s.out + (r + m) * s.out_stride + d + i * lane_count, sums[m][i]);
        }
    }
}

template <int rows, int bits>
SIMD_INLINE void weigh_packed_rows(const kv_rows& v, const attend_parts& s, int r, int count,
                                   int from, int to) {
    if constexpr (rows > 0) {
        if (count != rows) {
            weigh_packed_rows<rows - 1, bits>(v, s, r, count, from, to);
            return;
        }
        index d = 0;
        for (; d + value_lanes * lane_count <= v.dim; d += value_lanes * lane_count) {
            weigh_packed<rows, value_lanes, bits>(v, s, r, from, to, d);
        }
        for (; d < v.dim; d += lane_count) {
            weigh_packed<rows, 1, bits>(v, s, r, from, to, d);
        }
    }
}

template <int bits>
SIMD void weigh_all(const attention_block& block, const attend_parts& s) {
    if constexpr (bits != 16) {
        widen_value_scales(block.v, s);
    }
    // Unpacking twice costs less than a detour over memory; three times more.
    if (block.count > 2 * value_rows_max) {
        weigh_widened<bits>(block, s);
    } else {
        const row_tiles cut = cut_rows(block, value_rows_max, s.ranges);
        for (int tile = 0; tile < cut.tiles; ++tile) {
            int from = s.begin, to = s.end;
            if (cut.narrow(tile, from, to)) {
                weigh_packed_rows<value_rows_max, bits>(block.v, s, cut.first(tile), cut.rows(tile),
                                                        from, to);
            }
        }
    }
}

constexpr index scale_groups_max = 8;  // groups whose scales are read together

/// Scales of 4-bit values as rows over tokens: |scale| and centre, 0 outside [s.begin, s.end), and
/// the sign as a mask.
SIMD void split_value_scales(const kv_rows& v, const attend_parts& s) {
    const index groups = v.dim / group_size;
    float* centres = s.value_scales + groups * s.stride;
    const v16 zero = set1(0.0f);
    float scales[scale_groups_max * lane_count], biases[scale_groups_max * lane_count];
    for (int t = s.first; t < s.last; t += lane_count) {
        for (index g0 = 0; g0 < groups; g0 += scale_groups_max) {
            const index some = groups - g0 < scale_groups_max ? groups - g0 : scale_groups_max;
            const bool seen = t < s.end;
            if (v.row_scales == 1 && t + lane_count <= s.end) {
                store(scales, load_half(v.scales + t));
                store(biases, load_half(v.biases + t));
            } else if (seen) {
                tile_scales(v.scales + g0, static_cast<int>(some), v.row_scales, t, s.end, scales);
                tile_scales(v.biases + g0, static_cast<int>(some), v.row_scales, t, s.end, biases);
            }
            for (index g = 0; g < some; ++g) {
                const v16 raw = seen ? load(scales + g * lane_count) : zero;
                const v16 bias = seen ? load(biases + g * lane_count) : zero;
                const v16 scale = keep(raw, s.begin - t, s.end - t, zero);
                const v16 offset = where_less(scale, zero, set1(7.0f), set1(8.0f));
                const v16 centre = fma(scale, offset, keep(bias, s.begin - t, s.end - t, zero));
                const index at = (g0 + g) * s.stride + t;
                store(s.value_scales + at, abs(scale));
                store(centres + at, centre);
                store_words(s.flips + at, less_words(scale, zero));
            }
        }
    }
}

/// p of every row -> levels and units for the values of `group`, and out = Σ p * centre.
SIMD void round_weights(const attention_block& block, const attend_parts& s, index group) {
    constexpr int parts = attention_value_tokens / lane_count;
    const index groups = block.v.dim / group_size, tiles = s.stride / attention_value_tokens;
    const float* scales = s.value_scales + group * s.stride;
    const float* centres = scales + groups * s.stride;
    for (int r = 0; r < block.count; ++r) {
        if (block.begin[r] >= block.end[r]) {
            continue;
        }
        const float* p = s.scores + r * s.stride;
        v16 base = set1(0.0f);
        for (int t0 = s.first; t0 < s.last; t0 += attention_value_tokens) {
            std::uint8_t* levels = s.levels + r * s.stride + t0;
            float& unit = s.units[r * tiles + t0 / attention_value_tokens];
            if (t0 >= block.end[r] || t0 + attention_value_tokens <= block.begin[r]) {
                __builtin_memset(levels, 0, attention_value_tokens);
                unit = 0.0f;
                continue;
            }
            v16 w[parts];
#pragma GCC unroll 4
            for (int i = 0; i < parts; ++i) {
                const v16 weight = load(p + t0 + i * lane_count);
                base = fma(weight, load(centres + t0 + i * lane_count), base);
                w[i] = mul(weight, load(scales + t0 + i * lane_count));
            }
            const float peak = largest(max(max(w[0], w[1]), max(w[2], w[3])));
            const bool nothing = peak < 1e-30f;
            unit = nothing ? 0.0f : peak / 255.0f;
            const v16 inverse = set1(nothing ? 0.0f : 255.0f / peak);
#pragma GCC unroll 4
            for (int i = 0; i < parts; ++i) {
                store_low_bytes(levels + i * lane_count, round_to_words(mul(w[i], inverse)));
            }
        }
        const v16 start = set1(fold(base));
        float* out = s.out + r * s.out_stride + group * group_size;
        for (int d = 0; d < group_size; d += lane_count) {
            store(out + d, start);
        }
    }
}

/// Values of `group` of the tokens [t0, t1), a multiple of 8, for integers: [tokens / 4][64][4]
/// bytes u - 8, in the order of elements that value_order() undoes.
SIMD void quad_values(const kv_rows& v, const attend_parts& s, index group, int t0, int t1) {
    auto* out = reinterpret_cast<std::byte*>(s.values);
    const std::byte* rows = v.rows + group * (group_size / 2);
    const std::int32_t* flips = s.flips + group * s.stride;
    for (int t = t0; t < t1; t += 8, out += 2 * 4 * group_size) {
        i16 packed[4];
#pragma GCC unroll 4
        for (int i = 0; i < 4; ++i) {
            // Tokens outside [s.begin, s.end) have weight 0, so any row that can be read will do.
            index a = t + i, b = t + 4 + i;
            a = a < s.begin ? s.begin : a < s.end ? a : s.end - 1;
            b = b < s.begin ? s.begin : b < s.end ? b : s.end - 1;
            packed[i] = flip_halves(rows + a * static_cast<index>(v.row_bytes), flips + t + i,
                                    rows + b * static_cast<index>(v.row_bytes), flips + t + 4 + i);
        }
        i16 quads[4];
        interleave_bytes(packed, quads);
#pragma GCC unroll 2
        for (int i = 0; i < 2; ++i) {
            i16 low[2] = {from_eight(low_nibbles(quads[2 * i])),
                          from_eight(low_nibbles(quads[2 * i + 1]))};
            i16 high[2] = {from_eight(high_nibbles(quads[2 * i])),
                           from_eight(high_nibbles(quads[2 * i + 1]))};
            swap_halves(low[0], low[1]);
            swap_halves(high[0], high[1]);
            store_words(out + i * 64, low[0]);
            store_words(out + (2 + i) * 64, high[0]);
            store_words(out + (4 + i) * 64, low[1]);
            store_words(out + (6 + i) * 64, high[1]);
        }
    }
}

/// What weigh_levels reads and writes for one tile of 64 tokens.
struct level_span {
    const std::uint8_t* levels;  // [rows][stride]
    index stride;
    const float* units;  // [rows][unit_stride]
    index unit_stride;
    const std::byte* values;  // of quad_values; where no row has a weight, anything
    float* out;               // [rows][out_stride]
    index out_stride;
};

/// out[m] += unit[m] * Σ levels[m, t] * values[t].
template <int rows>
SIMD void weigh_levels(const level_span& s) {
    for (int k = 0; k < 4; k += level_vectors) {
        dot_sum<true> dots[rows][level_vectors];
#pragma GCC unroll 8
        for (int m = 0; m < rows; ++m) {
#pragma GCC unroll 4
            for (int i = 0; i < level_vectors; ++i) {
                clear(dots[m][i]);
            }
        }
        const std::uint8_t* levels = s.levels;
        const std::byte* values = s.values + k * 64;
#pragma GCC unroll 16
        for (int quad = 0; quad < attention_value_tokens / 4; ++quad) {
            i16 v[level_vectors];
#pragma GCC unroll 4
            for (int i = 0; i < level_vectors; ++i) {
                v[i] = load_words(values + quad * 256 + i * 64);
            }
#pragma GCC unroll 8
            for (int m = 0; m < rows; ++m) {
                const i16 level = set1_word(levels + m * s.stride + 4 * quad);
#pragma GCC unroll 4
                for (int i = 0; i < level_vectors; ++i) {
                    add_products(dots[m][i], level, v[i]);
                    if (quad % 8 == 7) {
                        carry(dots[m][i]);
                    }
                }
            }
        }
#pragma GCC unroll 8
        for (int m = 0; m < rows; ++m) {
            const v16 unit = set1(s.units[m * s.unit_stride]);
#pragma GCC unroll 4
            for (int i = 0; i < level_vectors; ++i) {
                float* to = s.out + m * s.out_stride + (k + i) * lane_count;
                store(to, fma(unit, to_floats(dots[m][i].words), load(to)));
            }
        }
    }
}

template <int rows>
SIMD_INLINE void weigh_level_rows(const level_span& s, int count) {
    if constexpr (rows > 0) {
        if (count == rows) {
            weigh_levels<rows>(s);
        } else {
            weigh_level_rows<rows - 1>(s, count);
        }
    }
}

/// 4-bit values: integers do the products.
SIMD void weigh_rounded(const attention_block& block, const attend_parts& s) {
    const row_tiles cut = cut_rows(block, level_rows_max, s.ranges);
    const index tiles = s.stride / attention_value_tokens;
    split_value_scales(block.v, s);
    for (index group = 0; group < block.v.dim / group_size; ++group) {
        round_weights(block, s, group);
        for (int t0 = s.first; t0 < s.last; t0 += attention_value_tokens) {
            const int t1 = s.end - t0 < attention_value_tokens ? t0 + (s.end - t0 + 7) / 8 * 8
                                                               : t0 + attention_value_tokens;
            quad_values(block.v, s, group, t0, t1);
            for (int tile = 0; tile < cut.tiles; ++tile) {
                int from = t0, to = t1;
                if (!cut.narrow(tile, from, to)) {
                    continue;
                }
                const int r = cut.first(tile);
                const level_span span{s.levels + r * s.stride + t0,
                                      s.stride,
                                      s.units + r * tiles + t0 / attention_value_tokens,
                                      tiles,
                                      reinterpret_cast<const std::byte*>(s.values),
                                      s.out + r * s.out_stride + group * group_size,
                                      s.out_stride};
                weigh_level_rows<level_rows_max>(span, cut.rows(tile));
            }
        }
    }
    for (int r = 0; r < block.count; ++r) {
        for (index d = 0; d < block.v.dim; d += group_size) {
            value_order(s.out + r * s.out_stride + d);
        }
    }
}

SIMD void attend(const attention_block& block) {
    const attend_parts s = divide_scratch(block);
    if (s.begin >= s.end) {
        return;
    }
    score_all(block, s);
    for (int r = 0; r < block.count; ++r) {
        float* out = s.out + r * s.out_stride;
        for (index d = 0; d < s.out_stride; d += lane_count) {
            store(out + d, set1(0.0f));
        }
        const bool sees = block.begin[r] < block.end[r];
        const int begin = sees ? block.begin[r] : s.end, end = sees ? block.end[r] : s.end;
        s.states[r] = softmax_row(s.scores + r * s.stride, begin, end, s);
    }
    if (block.v.bits == 4) {
        weigh_rounded(block, s);
    } else if (block.v.bits == 8) {
        weigh_all<8>(block, s);
    } else {
        weigh_all<16>(block, s);
    }
    for (int r = 0; r < block.count; ++r) {
        if (block.begin[r] < block.end[r]) {
            merge_softmax(block.state[r], block.out + static_cast<index>(r) * block.v.dim,
                          s.states[r], s.out + r * s.out_stride, block.v.dim);
        }
    }
}

constexpr kernel_table make_table(const char* name) {
    return {name,     false,         linear_float,   linear_quant,   quantize_rows, rms_norm,
            add_rows, silu_mul,      gelu_mul,       swiglu_clamped, rope,          quantize_kv,
            attend,   merge_softmax, finish_softmax, exp_all,        embed_row};
}
