// SPDX-License-Identifier: Apache-2.0
// Attention over one packed frame whose values have 8 or 16 bits. See elements.inl for how this is
// used, and attend_tiles.inl for values of fewer bits.
// 16 tokens of keys become one tile whose lanes are tokens, read by all query rows. Scores and
// softmax run over lanes of tokens. Values are widened to floats, 64 tokens at a time for all rows.

/// The parts of the scratch, as float_attention_scratch says, and the tokens that are seen.
struct attend_parts {
    index stride;   // tokens of a row of scores, a multiple of 64
    float* scores;  // [count][stride], then the weights p
    float* out;     // [count][v.dim padded]
    index out_stride;
    softmax_state* states;  // [count]
    int* ranges;            // [row tiles][2], see row_tiles
    float* keys;            // key tile: [k.dim / 4][16 tokens][4] bytes, or [k.dim][16] floats
    float* key_scales;      // [groups][16], then biases [groups][16]
    float* value_scales;    // [tokens, groups], then biases alike
    float* values;          // [64][v.dim padded]
    int begin, end;         // tokens that any row sees
    int first, last;        // the same in whole tiles of 16
};

struct seen_range {
    int begin, end;          // from the first to the last token that any row sees
    int all_begin, all_end;  // tokens that every row sees; none where all_end <= all_begin
};

SIMD seen_range seen_tokens(const attention_block& block) {
    seen_range seen{block.tokens, 0, 0, block.tokens};
    for (int r = 0; r < block.count; ++r) {
        const int begin = block.begin[r], end = block.end[r];
        const bool any = begin < end;
        seen.begin = any && begin < seen.begin ? begin : seen.begin;
        seen.end = any && end > seen.end ? end : seen.end;
        seen.all_begin = begin > seen.all_begin ? begin : seen.all_begin;
        seen.all_end = end < seen.all_end ? end : seen.all_end;
    }
    return seen;
}

SIMD attend_parts divide_scratch(const attention_block& block) {
    const float_attention_scratch parts =
        lay_out_float_attention(block.count, block.tokens, block.k.dim, block.v.dim);
    attend_parts s{};
    s.stride = static_cast<index>(parts.score_stride);
    s.out_stride = static_cast<index>(parts.out_stride);
    s.scores = block.scratch + parts.scores;
    s.out = block.scratch + parts.out;
    s.states = reinterpret_cast<softmax_state*>(block.scratch + parts.states);
    s.ranges = reinterpret_cast<int*>(block.scratch + parts.ranges);
    s.keys = block.scratch + parts.keys;
    s.key_scales = block.scratch + parts.key_scales;
    s.value_scales = block.scratch + parts.value_scales;
    s.values = block.scratch + parts.values;
    const seen_range seen = seen_tokens(block);
    s.begin = seen.begin;
    s.end = seen.end;
    s.first = s.begin / lane_count * lane_count;
    s.last = (s.end + lane_count - 1) / lane_count * lane_count;
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

/// Scales (or biases) as tile_scales gives them, where they do not lie side by side, are more than
/// two of a token, or end before the last of `count` tokens.
SIMD __attribute__((noinline)) void collect_scales(const half* from, const kv_rows& rows, int t0,
                                                   int count, int tokens, float* out) {
    for (int g = 0; g < rows.dim / group_size; ++g) {
        for (int i = 0; i < count; i += lane_count, out += lane_count) {
            half buffer[lane_count];
            for (int j = 0; j < lane_count; ++j) {
                const int token = t0 + i + j < tokens ? t0 + i + j : tokens - 1;
                buffer[j] = from[static_cast<index>(token) * rows.row_scales + g];
            }
            store(out, load_half(buffer));
        }
    }
}

/// The scales of `registers` x 16 tokens from t0 as [groups][tokens], then their biases alike.
/// Tokens past the end repeat the last.
template <int registers>
SIMD_INLINE void tile_scales(const kv_rows& rows, int t0, int tokens, float* out) {
    constexpr int count = registers * lane_count;
    const int groups = rows.dim / group_size;
    float* biases = out + groups * count;
    if (rows.row_scales != groups || groups > 2 || t0 + count > tokens) {
        collect_scales(rows.scales, rows, t0, count, tokens, out);
        collect_scales(rows.biases, rows, t0, count, tokens, biases);
        return;
    }
    const half* from = rows.scales + static_cast<index>(t0) * groups;
    const half* from_biases = rows.biases + static_cast<index>(t0) * groups;
#pragma GCC unroll 4
    for (int i = 0; i < count; i += lane_count) {
        if (groups == 1) {
            store(out + i, load_half(from + i));
            store(biases + i, load_half(from_biases + i));
        } else {
            for (int g = 0; g < 2; ++g) {
                store(out + g * count + i, load_half_of_pairs(from + 2 * i, g));
                store(biases + g * count + i, load_half_of_pairs(from_biases + 2 * i, g));
            }
        }
    }
}

/// 32 bytes of the keys of the tokens [t0, t0 + 16) (or 8 elements of 16 bits, widened) from
/// `offset` on, as words with the token as lane. Tokens past the end repeat the last one.
template <bool widened>
SIMD_INLINE void transpose_keys(const kv_rows& k, int t0, int tokens, index offset,
                                i16 (&words)[8]) {
    const auto row_bytes = static_cast<index>(k.row_bytes);
    const std::byte* first = k.rows + t0 * row_bytes + offset;
    const auto take = [&words](int i, const std::byte* a, const std::byte* b) SIMD {
        words[i] = widened ? load_halves_widened(a, b) : load_halves(a, b);
    };
    if (t0 + lane_count <= tokens) {
#pragma GCC unroll 8
        for (int i = 0; i < 8; ++i) {
            take(i, first + i * row_bytes, first + (i + 8) * row_bytes);
        }
    } else {
        const int last = tokens - 1 - t0;
        for (int i = 0; i < 8; ++i) {
            const int a = i < last ? i : last, b = i + 8 < last ? i + 8 : last;
            take(i, first + a * row_bytes, first + b * row_bytes);
        }
    }
    transpose8(words);
}

/// Keys of 16 tokens with the token as lane, as words of 4 bytes, or floats.
SIMD void load_key_tile(const attention_block& block, int t0, const attend_parts& s) {
    const kv_rows& k = block.k;
    const index row_bytes = static_cast<index>(k.dim) * k.bits / 8;
    auto* out = reinterpret_cast<std::byte*>(s.keys);
    const index step = k.bits == 16 ? 16 : 32;  // bytes that hold 8 words
    for (index offset = 0; offset < row_bytes; offset += step) {
        i16 words[8];
        if (k.bits == 16) {
            transpose_keys<true>(k, t0, block.tokens, offset, words);
        } else {
            transpose_keys<false>(k, t0, block.tokens, offset, words);
        }
#pragma GCC unroll 8
        for (int i = 0; i < 8; ++i, out += 64) {
            store_words(out, words[i]);
        }
    }
    if (k.bits == 8) {
        tile_scales<1>(k, t0, block.tokens, s.key_scales);
    }
}

/// Scores of `rows` rows from `r` against the integer key tile.
template <int rows>
SIMD void score_rows(const attention_block& block, const attend_parts& s, int r, float* out) {
    constexpr int chains = rows <= score_chains_rows ? 2 : 1;  // few rows wait for their own sums
    const index groups = block.k.dim / group_size;
    const std::int8_t* q = block.q.q + static_cast<index>(r) * block.k.dim;
    const float* q_scales = block.q.scales + r * groups;
    const float* q_sums = block.q.sums + r * groups;
    const auto* keys = reinterpret_cast<const std::byte*>(s.keys);
    v16 sums[rows];
#pragma GCC unroll 16
    for (int m = 0; m < rows; ++m) {
        sums[m] = set1(0.0f);
    }
    for (index g = 0; g < groups; ++g, q += group_size) {
        dot_sum<false> dots[rows][chains];
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
                dot_sum<false>& sum = dots[m][j % chains];
                add_products(sum, k, set1_word(q + m * block.k.dim + 4 * j));
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
        } else {
            score_rows<rows>(block, s, r, out);
        }
    }
}

SIMD void score_all(const attention_block& block, const attend_parts& s) {
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
    v16 maxima = lowest;
    for (int t = first; t < end; t += lane_count) {
        const v16 score = load(scores + t);
        const bool all = t >= begin && t + lane_count <= end;
        maxima = max(maxima, all ? score : keep(score, begin - t, end - t, lowest));
    }
    const float peak = largest(maxima);
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
    for (int t0 = s.begin; t0 < s.end; t0 += attention_tile_tokens) {
        const int t1 = s.end - t0 < attention_tile_tokens ? s.end : t0 + attention_tile_tokens;
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

SIMD void attend_tiles(const attention_block& block);

SIMD void attend(const attention_block& block) {
    if (block.v.bits < 8) {
        attend_tiles(block);
        return;
    }
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
    if (block.v.bits == 8) {
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
    return {name,          false,         linear_float,   linear_quant,
            quantize_rows, sum_parts,     rms_norm,       add_rows,
            silu_mul,      gelu_mul,      swiglu_clamped, rope,
            rotate,        rotate_back,   quantize_kv,    quantize_kv_shaped,
            attend,        merge_softmax, finish_softmax, exp_all,
            delta_rule,    state_space,   convolve,       embed_row};
}
