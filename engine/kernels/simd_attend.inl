// Attention over one packed frame. See simd_elements.inl for how this is used.
// 16 tokens of keys become one tile whose lanes are tokens, read by all query rows; scores and
// softmax run over lanes of tokens; values are widened once per 64 tokens and read by all rows.

/// Where the parts of the scratch lie, as attention_scratch_floats counts them.
struct attend_parts {
    index stride;   // floats of a row of scores
    float* scores;  // [count][stride], then the weights p
    float* out;     // [count][v.dim padded]
    index out_stride;
    softmax_state* states;  // [count]
    int* ranges;            // [row tiles][2], see row_tiles
    std::int8_t* q;         // [count][k.dim], in the order of the key tile
    float* keys;            // key tile: [k.dim / 4][16 tokens][4] bytes, or [k.dim][16] floats
    float* key_scales;      // [groups][16], then biases [groups][16]
    float* value_scales;    // [tokens, groups], then biases
    float* values;          // [64][v.dim padded]
    int begin, end;         // tokens that any row sees
};

SIMD_INLINE index padded(index n) { return (n + 15) / 16 * 16; }

SIMD attend_parts divide_scratch(const attention_block& block) {
    attend_parts s{};
    s.stride = padded(block.tokens);
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
    s.values = s.value_scales + 2 * s.stride * ((block.v.dim + group_size - 1) / group_size);
    s.begin = block.tokens;
    for (int r = 0; r < block.count; ++r) {
        if (block.begin[r] < block.end[r]) {
            s.begin = block.begin[r] < s.begin ? block.begin[r] : s.begin;
            s.end = block.end[r] > s.end ? block.end[r] : s.end;
        }
    }
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

/// Scores -> p in place, over the tiles that any row sees; hidden tokens get 0.
SIMD softmax_state softmax_row(float* scores, int begin, int end, const attend_parts& s) {
    const v16 lowest = set1(-__builtin_inff());
    const int first = begin / lane_count * lane_count;
    v16 peaks = lowest;
    for (int t = first; t < end; t += lane_count) {
        peaks = max(peaks, keep(load(scores + t), begin - t, end - t, lowest));
    }
    const float peak = largest(peaks);
    v16 sums = set1(0.0f);
    int t = s.begin / lane_count * lane_count;
    for (; t < first && t < s.end; t += lane_count) {
        store(scores + t, set1(0.0f));
    }
    for (; t < end; t += lane_count) {
        const v16 p = exp_lanes(sub(load(scores + t), set1(peak)));
        const v16 visible = keep(p, begin - t, end - t, set1(0.0f));
        sums = add(sums, visible);
        store(scores + t, visible);
    }
    for (; t < s.end; t += lane_count) {
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
    if constexpr (bits == 4) {
        for (index i = 0; i < block.count * s.out_stride; i += lane_count) {
            store(s.out + i, element_order(load(s.out + i)));
        }
    }
}

SIMD void attend(const attention_block& block) {
    const attend_parts s = divide_scratch(block);
    if (s.begin >= s.end) {
        return;
    }
    if (block.k.bits != 16) {
        order_queries(block, s.q);
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
        weigh_all<4>(block, s);
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
