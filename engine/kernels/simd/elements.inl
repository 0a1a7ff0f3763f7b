// SPDX-License-Identifier: Apache-2.0
// Element-wise kernels, norms and quantisers over 16 lanes. Included by the kernel files of the
// vector instruction sets inside their unnamed namespace, after their v16 and i16 operations, so
// the order of operations is written once.

using index = std::ptrdiff_t;

/// How many of the lanes from i on lie below n.
SIMD_INLINE int lanes_left(index n, index i) {
    return n - i < lane_count ? static_cast<int>(n - i) : lane_count;
}

/// exp_lanes for x <= 0; other lanes are not used.
SIMD_INLINE v16 exp_not_above_0(v16 x) {
    const v16 shifted = fma(x, set1(exp_log2e), set1(exp_magic));
    const v16 n = sub(shifted, set1(exp_magic));
    v16 r = fma(n, set1(-exp_ln2_high), x);
    r = fma(n, set1(-exp_ln2_low), r);
    v16 p = set1(exp_coefficients[0]);
#pragma GCC unroll 8
    for (int i = 1; i < exp_coefficient_count; ++i) {
        p = fma(p, r, set1(exp_coefficients[i]));
    }
    p = add_exponent(p, shifted);
    return where_less(x, set1(exp_underflow), set1(0.0f), p);
}

/// 2^x as exp2_coefficients say, for x <= 0; other lanes are not used.
SIMD_INLINE v16 exp2_not_above_0(v16 x) {
    x = max(x, set1(exp2_lowest));
    const v16 shifted = add(x, set1(exp_magic));
    const v16 r = sub(x, sub(shifted, set1(exp_magic)));
    v16 p = set1(exp2_coefficients[0]);
#pragma GCC unroll 4
    for (int i = 1; i < exp2_coefficient_count; ++i) {
        p = fma(p, r, set1(exp2_coefficients[i]));
    }
    return add_exponent(p, shifted);
}

SIMD_INLINE v16 exp_lanes(v16 x) {
    return where_less(set1(exp_overflow), x, set1(__builtin_inff()), exp_not_above_0(x));
}

SIMD_INLINE float exp_one(float x) {
    float lanes[lane_count];
    store(lanes, exp_lanes(set1(x)));
    return lanes[0];
}

SIMD void exp_all(const float* x, float* out, std::size_t n) {
    const auto count = static_cast<index>(n);
    for (index i = 0; i < count; i += lane_count) {
        const int lanes = lanes_left(count, i);
        store_first(out + i, lanes, exp_lanes(load_first(x + i, lanes)));
    }
}

SIMD void add_rows(float* x, const float* y, std::size_t n) {
    const auto count = static_cast<index>(n);
    for (index i = 0; i < count; i += lane_count) {
        const int lanes = lanes_left(count, i);
        store_first(x + i, lanes, add(load_first(x + i, lanes), load_first(y + i, lanes)));
    }
}

SIMD void silu_mul(float* gate, const float* up, std::size_t n) {
    const auto count = static_cast<index>(n);
    for (index i = 0; i < count; i += lane_count) {
        const int lanes = lanes_left(count, i);
        const v16 x = load_first(gate + i, lanes);
        const v16 negative = mul(x, set1(-1.0f));
        const v16 silu = div(x, add(set1(1.0f), exp_lanes(negative)));
        store_first(gate + i, lanes, mul(silu, load_first(up + i, lanes)));
    }
}

SIMD void gelu_mul(float* gate, const float* up, std::size_t n) {
    const auto count = static_cast<index>(n);
    for (index i = 0; i < count; i += lane_count) {
        const int lanes = lanes_left(count, i);
        const v16 x = load_first(gate + i, lanes);
        const v16 slope = fma(set1(gelu_cubic), mul(x, x), set1(gelu_linear));
        const v16 gelu = div(x, add(set1(1.0f), exp_lanes(mul(x, slope))));
        store_first(gate + i, lanes, mul(gelu, load_first(up + i, lanes)));
    }
}

SIMD void swiglu_clamped(float* gate, const float* up, std::size_t n, float alpha, float limit) {
    const auto count = static_cast<index>(n);
    const v16 highest = set1(limit), lowest = set1(-limit), one = set1(1.0f);
    for (index i = 0; i < count; i += lane_count) {
        const int lanes = lanes_left(count, i);
        const v16 g = min(load_first(gate + i, lanes), highest);
        const v16 u = max(min(load_first(up + i, lanes), highest), lowest);
        const v16 swish = div(g, add(one, exp_lanes(mul(set1(-alpha), g))));
        store_first(gate + i, lanes, mul(add(u, one), swish));
    }
}

SIMD void rms_norm(const float* x, const float* weight, float* out, int n, float eps,
                   bool one_plus) {
    v16 squares = set1(0.0f);
    for (index i = 0; i < n; i += lane_count) {
        const v16 a = load_first(x + i, lanes_left(n, i));
        squares = fma(a, a, squares);
    }
    const float mean = fold(squares) / static_cast<float>(n);
    const v16 factor = set1(1.0f / __builtin_sqrtf(mean + eps));
    const v16 offset = set1(one_plus ? 1.0f : 0.0f);
    for (index i = 0; i < n; i += lane_count) {
        const int lanes = lanes_left(n, i);
        const v16 w = load_first(weight + i, lanes);
        const v16 scaled = mul(load_first(x + i, lanes), factor);
        store_first(out + i, lanes, mul(scaled, one_plus ? add(offset, w) : w));
    }
}

SIMD void rope(float* x, const float* cosines, const float* sines, int dim) {
    const int pairs = dim / 2;
    for (index i = 0; i < pairs; i += lane_count) {
        const int lanes = lanes_left(pairs, i);
        const v16 a = load_first(x + i, lanes), b = load_first(x + pairs + i, lanes);
        const v16 c = load_first(cosines + i, lanes), s = load_first(sines + i, lanes);
        store_first(x + i, lanes, fms(a, c, mul(b, s)));
        store_first(x + pairs + i, lanes, fma(b, c, mul(a, s)));
    }
}

SIMD void quantize_rows(const float* x, int count, int cols, std::int8_t* q, float* scales,
                        float* sums) {
    const index groups = static_cast<index>(count) * (cols / group_size);
    for (index g = 0; g < groups; ++g) {
        const float* group = x + g * group_size;
        const v16 a = load(group), b = load(group + 16), c = load(group + 32), d = load(group + 48);
        const float peak = largest(max(max(abs(a), abs(b)), max(abs(c), abs(d))));
        const float scale = peak < 1e-30f ? 1.0f : peak / 127.0f;
        const v16 inverse = set1(1.0f / scale);
        const i16 qa = round_to_words(mul(a, inverse)), qb = round_to_words(mul(b, inverse));
        const i16 qc = round_to_words(mul(c, inverse)), qd = round_to_words(mul(d, inverse));
        std::int8_t* out = q + g * group_size;
        store_low_bytes(out, qa);
        store_low_bytes(out + 16, qb);
        store_low_bytes(out + 32, qc);
        store_low_bytes(out + 48, qd);
        scales[g] = scale;
        sums[g] = scale * static_cast<float>(sum_words(add(add(qa, qb), add(qc, qd))));
    }
}

SIMD void sum_parts(const std::int8_t* q, std::size_t count, std::int16_t* sums) {
    const __m256i zero = _mm256_setzero_si256(), flip = _mm256_set1_epi8(-128);
    for (std::size_t i = 0; i < count; i += 4, q += 64) {
        const auto* at = reinterpret_cast<const __m256i*>(q);
        // Of q + 128, 8 elements to a 64-bit word.
        const __m256i a = _mm256_sad_epu8(_mm256_xor_si256(_mm256_loadu_si256(at), flip), zero);
        const __m256i b = _mm256_sad_epu8(_mm256_xor_si256(_mm256_loadu_si256(at + 1), flip), zero);
        const __m256i both = _mm256_or_si256(a, _mm256_slli_epi64(b, 32));
        const __m256i parts = _mm256_add_epi32(both, _mm256_unpackhi_epi64(both, both));
        const __m128i ordered =
            _mm_unpacklo_epi32(_mm256_castsi256_si128(parts), _mm256_extracti128_si256(parts, 1));
        const __m128i words = _mm_sub_epi32(ordered, _mm_set1_epi32(128 * 16));
        _mm_storel_epi64(reinterpret_cast<__m128i*>(sums + i), _mm_packs_epi32(words, words));
    }
}

SIMD void merge_softmax(softmax_state& total, float* into_out, const softmax_state& from,
                        const float* from_out, int dim) {
    const float peak = total.max > from.max ? total.max : from.max;
    const v16 a = exp_not_above_0(set1(total.max - peak));
    const v16 b = exp_not_above_0(set1(from.max - peak));
    total.max = peak;
    store_first(&total.sum, 1, fma(set1(total.sum), a, mul(set1(from.sum), b)));
    for (index d = 0; d < dim; d += lane_count) {
        const int lanes = lanes_left(dim, d);
        const v16 other = mul(load_first(from_out + d, lanes), b);
        store_first(into_out + d, lanes, fma(load_first(into_out + d, lanes), a, other));
    }
}

SIMD void finish_softmax(const softmax_state& state, float* out, int dim) {
    const v16 inverse = set1(1.0f / state.sum);
    for (index d = 0; d < dim; d += lane_count) {
        const int lanes = lanes_left(dim, d);
        store_first(out + d, lanes, mul(load_first(out + d, lanes), inverse));
    }
}
