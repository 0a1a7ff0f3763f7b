// SPDX-License-Identifier: Apache-2.0
// Rotation and quantising of rows of keys and values. See elements.inl for how this is used.
// Numbers in parentheses are formulas of ARITHMETIC.md.

/// Signs of x and its partner in a butterfly over 1, 2, 4 and 8 lanes.
constexpr auto butterfly_signs = [] {
    std::array<std::array<float, lane_count>, 4> signs{};
    for (std::size_t i = 0; i < 4 * lane_count; ++i) {
        signs[i / lane_count][i % lane_count] =
            (i % lane_count >> i / lane_count & 1) ? -1.0f : 1.0f;
    }
    return signs;
}();

/// a + b and a - b for lanes a and b that lie 2^step apart.
template <int step>
SIMD_INLINE v16 butterfly(v16 x) {
    return fma(x, load(butterfly_signs[step].data()), swap_lanes<1 << step>(x));
}

/// The normalised Hadamard transform of each block of (22) and (23).
SIMD void transform_head(float* x, int dim) {
    const index block = rotation_block(dim);
    for (index i = 0; i < dim; i += lane_count) {
        store(x + i, butterfly<3>(butterfly<2>(butterfly<1>(butterfly<0>(load(x + i))))));
    }
    for (index width = lane_count; width < block; width *= 2) {
        for (index i = 0; i < dim; i += lane_count) {
            if ((i & width) == 0) {
                const v16 a = load(x + i), b = load(x + i + width);
                store(x + i, add(a, b));
                store(x + i + width, sub(a, b));
            }
        }
    }
    const v16 norm = set1(1.0f / __builtin_sqrtf(static_cast<float>(block)));
    for (index i = 0; i < dim; i += lane_count) {
        store(x + i, mul(load(x + i), norm));
    }
}

SIMD void sign_channels(float* x, int dim) {
    for (index i = 0; i < dim; i += lane_count) {
        const auto channel = static_cast<std::size_t>(i) % rotation_signs.size();
        store(x + i, mul(load(x + i), load(rotation_signs.data() + channel)));
    }
}

SIMD void rotate(float* x, int dim) {
    sign_channels(x, dim);
    transform_head(x, dim);
}

SIMD void rotate_back(float* x, int dim) {
    transform_head(x, dim);
    sign_channels(x, dim);
}

SIMD_INLINE half to_finite_half(float value) {
    value = value > 65504.0f ? 65504.0f : value;
    return to_half(value < -65504.0f ? -65504.0f : value);
}

/// Low nibbles of bytes a, b, c, d, ... -> a | b << 4, c | d << 4, ...
SIMD_INLINE void pack_nibbles(const std::uint8_t* levels, std::byte* out) {
    const __m128i weights = _mm_set1_epi16(0x1001), low = _mm_set1_epi8(15);
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {
        const auto* from = reinterpret_cast<const __m128i*>(levels + 32 * i);
        const __m128i first = _mm_and_si128(_mm_loadu_si128(from), low);
        const __m128i second = _mm_and_si128(_mm_loadu_si128(from + 1), low);
        _mm_storeu_si128(reinterpret_cast<__m128i*>(out + 16 * i),
                         _mm_packus_epi16(_mm_maddubs_epi16(first, weights),
                                          _mm_maddubs_epi16(second, weights)));
    }
}

/// The plane of `upper` bits from bit `first` on, as kv_rows states it.
template <int upper, int first>
SIMD_INLINE void pack_plane(const std::uint8_t* levels, std::byte* out) {
    constexpr int per_word = 4 / upper;  // 8 levels each
    constexpr std::uint64_t of_byte = 0x0101010101010101u * ((1u << upper) - 1u);
    constexpr std::uint64_t of_pair = 0x0001000100010001u * ((1u << 2 * upper) - 1u);
    for (int word = 0; word < 2 * upper; ++word) {
        std::uint64_t pairs = 0;  // 4 of 16 bits, of which 8 are used
        for (int i = 0; i < per_word; ++i, levels += 8) {
            std::uint64_t eight;
            __builtin_memcpy(&eight, levels, sizeof eight);
            eight = eight >> first & of_byte;
            pairs |= ((eight | eight >> (8 - upper)) & of_pair) << 2 * upper * i;
        }
        for (int b = 0; b < 4; ++b) {
            *out++ = static_cast<std::byte>(pairs >> 16 * b & 255u);
        }
    }
}

/// The integers of a group in the packed form that kv_rows states.
SIMD_INLINE void pack_group(const std::uint8_t* levels, int bits, std::byte* out) {
    if (bits == 8) {
        __builtin_memcpy(out, levels, group_size);
        return;
    }
    pack_nibbles(levels, out);
    if (bits == 5) {
        pack_plane<1, 4>(levels, out + group_size / 2);
    } else if (bits == 6) {
        pack_plane<2, 4>(levels, out + group_size / 2);
    } else if (bits == 7) {
        pack_plane<2, 4>(levels, out + group_size / 2);
        pack_plane<1, 6>(levels, out + group_size * 3 / 4);
    }
}

struct scale_and_bias {
    float scale, bias;
};

/// rn((x - bias) / scale), clamped to `steps`.
SIMD_INLINE v16 round_level(v16 x, scale_and_bias by, float steps) {
    const v16 level = round(div(sub(x, set1(by.bias)), set1(by.scale)));
    return min(max(level, set1(0.0f)), set1(steps));
}

struct span_of_group {
    float low, high;
};
SIMD_INLINE span_of_group span_of(const v16 (&x)[4]) {
    return {smallest(min(min(x[0], x[1]), min(x[2], x[3]))),
            largest(max(max(x[0], x[1]), max(x[2], x[3])))};
}
SIMD_INLINE float not_below_least(float scale) {
    return scale < least_kv_scale ? least_kv_scale : scale;
}

/// (24)
SIMD_INLINE scale_and_bias find_mlx(const v16 (&x)[4], float steps) {
    const auto [low, high] = span_of(x);
    const bool use_low = __builtin_fabsf(low) > __builtin_fabsf(high);
    float scale = not_below_least((high - low) / steps);
    scale = use_low ? scale : -scale;
    const float edge = use_low ? low : high;
    const float zero_step = __builtin_nearbyintf(edge / scale);
    if (zero_step != 0.0f) {
        scale = edge / zero_step;
    }
    return {scale, zero_step != 0.0f ? edge : 0.0f};
}

/// The same with the inverse of the scale.
SIMD_INLINE v16 round_by_inverse(v16 x, v16 bias, v16 inverse, float steps) {
    return min(max(round(mul(sub(x, bias), inverse)), set1(0.0f)), set1(steps));
}

/// Stores the integers of a group as bytes.
SIMD_INLINE void store_levels(const v16 (&levels)[4], std::uint8_t* to) {
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
        store_low_bytes(to + i * lane_count, round_to_words(levels[i]));
    }
}

SIMD_INLINE scale_and_bias round_mlx(const v16 (&x)[4], float steps, std::uint8_t* q) {
    const scale_and_bias found = find_mlx(x, steps);
    const v16 levels[4] = {round_level(x[0], found, steps), round_level(x[1], found, steps),
                           round_level(x[2], found, steps), round_level(x[3], found, steps)};
    store_levels(levels, q);
    return found;
}

/// (25)
SIMD_INLINE scale_and_bias round_fitted(const v16 (&from)[4], float steps, std::uint8_t* q) {
    v16 x[4], y[4], levels[4], lanes = set1(0.0f);
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
        x[i] = min(max(from[i], set1(-65504.0f)), set1(65504.0f));
    }
    const auto [low, high] = span_of(x);
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
        y[i] = sub(x[i], set1(low));
        lanes = add(lanes, y[i]);
    }
    const float total = fold(lanes);
    scale_and_bias line{not_below_least((high - low) / steps), low};
    const auto round_all = [&]() SIMD {
        const v16 bias = set1(line.bias), inverse = set1(1.0f / line.scale);
#pragma GCC unroll 4
        for (int i = 0; i < 4; ++i) {
            levels[i] = round_by_inverse(x[i], bias, inverse, steps);
        }
    };
    for (int fit = 0; fit < kv_fits; ++fit) {
        round_all();
        v16 codes = set1(0.0f), squares = codes, products = codes;
#pragma GCC unroll 4
        for (int i = 0; i < 4; ++i) {
            codes = add(codes, levels[i]);
            squares = fma(levels[i], levels[i], squares);
            products = fma(levels[i], y[i], products);
        }
        const float sum = fold(codes);  // exact, as that of squares
        const int whole = static_cast<int>(sum);
        const int spread = group_size * static_cast<int>(fold(squares)) - whole * whole;
        if (spread > 0) {
            const float common = __builtin_fmaf(-sum, total, group_size * fold(products));
            line.scale = not_below_least(common / static_cast<float>(spread));
        }
        if (fit == kv_fits - 1) {
            line.scale = to_float(to_finite_half(line.scale));
        }
        line.bias = __builtin_fmaf(__builtin_fmaf(-line.scale, sum, total), 1.0f / group_size, low);
    }
    line.bias = to_float(to_finite_half(line.bias));
    round_all();
    store_levels(levels, q);
    return line;
}

SIMD void quantize_kv_group(const float* from, int bits, kv_rounding rounding, std::byte* row,
                            half& scale_out, half& bias_out) {
    const v16 x[4] = {load(from), load(from + 16), load(from + 32), load(from + 48)};
    const float steps = static_cast<float>((1 << bits) - 1);
    alignas(64) std::uint8_t levels[group_size];
    const scale_and_bias found =
        rounding == kv_rounding::mlx ? round_mlx(x, steps, levels) : round_fitted(x, steps, levels);
    pack_group(levels, bits, row);
    scale_out = to_finite_half(found.scale);
    bias_out = to_finite_half(found.bias);
}

SIMD void quantize_kv(const float* x, int dim, int bits, kv_rounding rounding, std::byte* row,
                      half* scales, half* biases) {
    if (bits == 16) {
        for (index i = 0; i < dim; ++i) {
            reinterpret_cast<half*>(row)[i] = to_finite_half(x[i]);
        }
        return;
    }
    for (index g = 0; g < dim / group_size; ++g) {
        quantize_kv_group(x + g * group_size, bits, rounding, row + g * group_size * bits / 8,
                          scales[g], biases[g]);
    }
}

/// A row of (26) on its way. The next element is kept by itself, as its lane will be: the chain
/// from one to the next goes through no store and no load.
struct shaped_row {
    alignas(64) float given[shaped_dim_max], wanted[shaped_dim_max];
    alignas(64) std::uint8_t levels[shaped_dim_max];
    scale_and_bias lines[shaped_dim_max / group_size];
    float next;
};

SIMD void begin_shaped(const shaped_key& key, int dim, float steps, shaped_row& to) {
    for (index g = 0; g < dim / group_size; ++g) {
        v16 part[4];
#pragma GCC unroll 4
        for (int i = 0; i < 4; ++i) {
            const index at = g * group_size + i * lane_count;
            part[i] = min(max(load(key.x + at), set1(-65504.0f)), set1(65504.0f));
            store(to.given + at, part[i]);
            store(to.wanted + at, part[i]);
        }
        to.lines[g] = round_fitted(part, steps, to.levels + g * group_size);
    }
    to.next = to.given[0];
}

/// Rounds element i and hands its error on.
SIMD_INLINE void round_shaped(const float* feedback, int dim, float steps, index i,
                              shaped_row& row) {
    const scale_and_bias line = row.lines[i / group_size];
    const float level = __builtin_nearbyintf((row.next - line.bias) * (1.0f / line.scale));
    const float code = level > 0.0f ? (level < steps ? level : steps) : 0.0f;
    row.levels[i] = static_cast<std::uint8_t>(code);
    const float error = row.given[i] - __builtin_fmaf(line.scale, code, line.bias);
    const float* shares = feedback + i * dim;
    if (i + 1 < dim) row.next = __builtin_fmaf(error, shares[i + 1], row.wanted[i + 1]);
    for (index j = i / lane_count * lane_count; j < dim; j += lane_count)
        store(row.wanted + j, fma(set1(error), load(shares + j), load(row.wanted + j)));
}

/// (26)
SIMD void quantize_kv_shaped(const shaped_key* keys, int count, int dim, int bits) {
    const float steps = static_cast<float>((1 << bits) - 1);
    shaped_row rows[shaped_keys_max];
    for (int k = 0; k < count; ++k) begin_shaped(keys[k], dim, steps, rows[k]);
    for (index i = 0; i < dim; ++i)
        for (int k = 0; k < count; ++k) round_shaped(keys[k].feedback, dim, steps, i, rows[k]);
    for (int k = 0; k < count; ++k)
        for (index g = 0; g < dim / group_size; ++g) {
            pack_group(rows[k].levels + g * group_size, bits,
                       keys[k].row + g * group_size * bits / 8);
            keys[k].scales[g] = to_finite_half(rows[k].lines[g].scale);
            keys[k].biases[g] = to_finite_half(rows[k].lines[g].bias);
        }
}
