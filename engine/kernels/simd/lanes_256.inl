// SPDX-License-Identifier: Apache-2.0
// 16 lanes as two registers of 256 bits, for kernels_avx2.cpp and kernels_avxvnni.cpp. They define
// SIMD and SIMD_INLINE before this file and, after it, dot_sum: how bytes are multiplied.

struct v16 {
    __m256 a, b;
};
struct i16 {
    __m256i a, b;
};

// Shapes of the register tiles, from 16 registers of half a v16.
constexpr int quant_rows_max = 4, quant_tiles = 1;    // 8 registers of integer sums
constexpr int float_rows_max = 6, float_tiles = 1;    // 12 of sums, 2 of weights
constexpr int score_rows_max = 4;                     // 8 of integer sums
constexpr int score_chains_rows = 0;                  // no registers for two sums a row
constexpr int value_rows_max = 6, value_lanes = 1;    // 12 of sums, 2 of values
constexpr int level_rows_max = 4, level_vectors = 1;  // 8 of integer sums
constexpr int state_strips = 2;                       // 4 registers of results, 4 of changes
constexpr int packed_rows_max = 1;                    // up to so many read packed 4-bit tokens
constexpr float value_unit(int) { return 1.0f; }      // what quad_values calls 1, in levels

/// All ones in the first n of 8 lanes; n may be outside 0 to 8.
SIMD_INLINE __m256i first8(int n) {
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), lane);
}

SIMD_INLINE v16 set1(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
SIMD_INLINE v16 load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
// Most calls are for all lanes. A masked store of 8 is some 40 instructions inside a Zen core.
SIMD_INLINE v16 load_first(const float* p, int n) {
    if (n >= 16) {
        return load(p);
    }
    return {_mm256_maskload_ps(p, first8(n)), _mm256_maskload_ps(p + 8, first8(n - 8))};
}
SIMD_INLINE void store(float* p, v16 x) {
    _mm256_storeu_ps(p, x.a);
    _mm256_storeu_ps(p + 8, x.b);
}
SIMD_INLINE void store_first(float* p, int n, v16 x) {
    if (n >= 16) {
        store(p, x);
        return;
    }
    _mm256_maskstore_ps(p, first8(n), x.a);
    _mm256_maskstore_ps(p + 8, first8(n - 8), x.b);
}
SIMD_INLINE v16 load_half(const void* p) {
    const auto* at = static_cast<const __m128i*>(p);
    return {_mm256_cvtph_ps(_mm_loadu_si128(at)), _mm256_cvtph_ps(_mm_loadu_si128(at + 1))};
}
SIMD_INLINE __m256 widen_bfloat(__m128i x) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(x), 16));
}
SIMD_INLINE v16 load_bfloat(const void* p) {
    const auto* at = static_cast<const __m128i*>(p);
    return {widen_bfloat(_mm_loadu_si128(at)), widen_bfloat(_mm_loadu_si128(at + 1))};
}
SIMD_INLINE v16 load_bytes(const void* p) {
    const __m128i bytes = _mm_loadu_si128(static_cast<const __m128i*>(p));
    return {_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes)),
            _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_srli_si128(bytes, 8)))};
}

SIMD_INLINE v16 add(v16 x, v16 y) { return {_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)}; }
SIMD_INLINE v16 sub(v16 x, v16 y) { return {_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)}; }
SIMD_INLINE v16 mul(v16 x, v16 y) { return {_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)}; }
SIMD_INLINE v16 div(v16 x, v16 y) { return {_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)}; }
SIMD_INLINE v16 min(v16 x, v16 y) { return {_mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b)}; }
SIMD_INLINE v16 max(v16 x, v16 y) { return {_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)}; }
SIMD_INLINE v16 abs(v16 x) {
    const __m256 sign = _mm256_set1_ps(-0.0f);
    return {_mm256_andnot_ps(sign, x.a), _mm256_andnot_ps(sign, x.b)};
}
SIMD_INLINE v16 fma(v16 x, v16 y, v16 z) {
    return {_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)};
}
SIMD_INLINE v16 fms(v16 x, v16 y, v16 z) {
    return {_mm256_fmsub_ps(x.a, y.a, z.a), _mm256_fmsub_ps(x.b, y.b, z.b)};
}
SIMD_INLINE v16 round(v16 x) {
    return {_mm256_round_ps(x.a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC),
            _mm256_round_ps(x.b, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
SIMD_INLINE v16 ceil(v16 x) { return {_mm256_ceil_ps(x.a), _mm256_ceil_ps(x.b)}; }
SIMD_INLINE __m256 add_exponent8(__m256 p, __m256 shifted) {
    const __m256i n = _mm256_slli_epi32(_mm256_castps_si256(shifted), 23);
    return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(p), n));
}
/// p * 2^n, where n sits in the low bits of `shifted`.
SIMD_INLINE v16 add_exponent(v16 p, v16 shifted) {
    return {add_exponent8(p.a, shifted.a), add_exponent8(p.b, shifted.b)};
}
SIMD_INLINE v16 where_less(v16 x, v16 y, v16 then, v16 otherwise) {
    return {_mm256_blendv_ps(otherwise.a, then.a, _mm256_cmp_ps(x.a, y.a, _CMP_LT_OQ)),
            _mm256_blendv_ps(otherwise.b, then.b, _mm256_cmp_ps(x.b, y.b, _CMP_LT_OQ))};
}
/// Lanes [begin, end) of `x`, the others from `otherwise`. Any begin and end.
SIMD_INLINE v16 keep(v16 x, int begin, int end, v16 otherwise) {
    const __m256i a = _mm256_andnot_si256(first8(begin), first8(end));
    const __m256i b = _mm256_andnot_si256(first8(begin - 8), first8(end - 8));
    return {_mm256_blendv_ps(otherwise.a, x.a, _mm256_castsi256_ps(a)),
            _mm256_blendv_ps(otherwise.b, x.b, _mm256_castsi256_ps(b))};
}

/// Lane i holds what lane i ^ width held; width 1, 2, 4 or 8.
template <int width>
SIMD_INLINE v16 swap_lanes(v16 x) {
    if constexpr (width == 8) {
        return {x.b, x.a};
    } else if constexpr (width == 4) {
        return {_mm256_permute2f128_ps(x.a, x.a, 1), _mm256_permute2f128_ps(x.b, x.b, 1)};
    } else {
        constexpr int order = width == 1 ? 0xb1 : 0x4e;
        return {_mm256_permute_ps(x.a, order), _mm256_permute_ps(x.b, order)};
    }
}

/// Sum of the lanes, folding 8+8, 4+4, 2+2, 1+1.
SIMD_INLINE float fold(v16 x) {
    const __m256 eight = _mm256_add_ps(x.a, x.b);
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    four = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(four, _mm_movehdup_ps(four)));
}
SIMD_INLINE float largest(v16 x) {
    const __m256 eight = _mm256_max_ps(x.a, x.b);
    __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    four = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(four, _mm_movehdup_ps(four)));
}
SIMD_INLINE float smallest(v16 x) {
    const __m256 eight = _mm256_min_ps(x.a, x.b);
    __m128 four = _mm_min_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    four = _mm_min_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_min_ss(four, _mm_movehdup_ps(four)));
}

SIMD_INLINE i16 zero_words() { return {_mm256_setzero_si256(), _mm256_setzero_si256()}; }
SIMD_INLINE i16 load_halves(const void* low, const void* high) {
    return {_mm256_loadu_si256(static_cast<const __m256i*>(low)),
            _mm256_loadu_si256(static_cast<const __m256i*>(high))};
}
SIMD_INLINE i16 load_halves_widened(const void* low, const void* high) {
    const __m128i a = _mm_loadu_si128(static_cast<const __m128i*>(low));
    const __m128i b = _mm_loadu_si128(static_cast<const __m128i*>(high));
    return {_mm256_castps_si256(_mm256_cvtph_ps(a)), _mm256_castps_si256(_mm256_cvtph_ps(b))};
}
SIMD_INLINE i16 load_words(const void* p) {
    return load_halves(p, static_cast<const __m256i*>(p) + 1);
}
SIMD_INLINE void store_words(void* p, i16 x) {
    _mm256_storeu_si256(static_cast<__m256i*>(p), x.a);
    _mm256_storeu_si256(static_cast<__m256i*>(p) + 1, x.b);
}
SIMD_INLINE i16 set1_word(const void* p) {
    int word;
    __builtin_memcpy(&word, p, 4);
    return {_mm256_set1_epi32(word), _mm256_set1_epi32(word)};
}
SIMD_INLINE i16 low_nibbles(i16 x) {
    const __m256i mask = _mm256_set1_epi8(15);
    return {_mm256_and_si256(x.a, mask), _mm256_and_si256(x.b, mask)};
}
SIMD_INLINE i16 high_nibbles(i16 x) {
    return low_nibbles({_mm256_srli_epi16(x.a, 4), _mm256_srli_epi16(x.b, 4)});
}
template <int mask>
SIMD_INLINE i16 mask_bytes(i16 x) {
    const __m256i bits = _mm256_set1_epi8(static_cast<char>(mask));
    return {_mm256_and_si256(x.a, bits), _mm256_and_si256(x.b, bits)};
}
SIMD_INLINE i16 or_words(i16 x, i16 y) {
    return {_mm256_or_si256(x.a, y.a), _mm256_or_si256(x.b, y.b)};
}
/// x | (y & mask)
template <int mask>
SIMD_INLINE i16 or_masked(i16 x, i16 y) {
    return or_words(x, mask_bytes<mask>(y));
}
/// The two words at p, again and again.
SIMD_INLINE i16 set2_words(const std::int32_t* p) {
    std::int64_t words;
    __builtin_memcpy(&words, p, 8);
    return {_mm256_set1_epi64x(words), _mm256_set1_epi64x(words)};
}
/// 16 bytes as words.
SIMD_INLINE i16 widen_signed_bytes(const void* p) {
    const __m128i bytes = _mm_loadu_si128(static_cast<const __m128i*>(p));
    return {_mm256_cvtepi8_epi32(bytes), _mm256_cvtepi8_epi32(_mm_srli_si128(bytes, 8))};
}
/// 32 bytes as shorts.
SIMD_INLINE i16 widen_to_shorts(const void* p) {
    const auto* bytes = static_cast<const __m128i*>(p);
    return {_mm256_cvtepu8_epi16(_mm_loadu_si128(bytes)),
            _mm256_cvtepu8_epi16(_mm_loadu_si128(bytes + 1))};
}
SIMD_INLINE i16 widen_signed_to_shorts(const void* p) {
    const auto* bytes = static_cast<const __m128i*>(p);
    return {_mm256_cvtepi8_epi16(_mm_loadu_si128(bytes)),
            _mm256_cvtepi8_epi16(_mm_loadu_si128(bytes + 1))};
}
template <int bits>
SIMD_INLINE i16 shift_left_words(i16 x) {
    return {_mm256_slli_epi32(x.a, bits), _mm256_slli_epi32(x.b, bits)};
}
/// Of integers with signs.
template <int bits>
SIMD_INLINE i16 shift_right_words(i16 x) {
    if constexpr (bits == 0) {
        return x;
    } else {
        return {_mm256_srai_epi32(x.a, bits), _mm256_srai_epi32(x.b, bits)};
    }
}
/// Each word's low short, without its sign.
SIMD_INLINE i16 low_shorts(i16 x) {
    const __m256i mask = _mm256_set1_epi32(0xffff);
    return {_mm256_and_si256(x.a, mask), _mm256_and_si256(x.b, mask)};
}
/// The low short of each word twice, and the high one.
SIMD_INLINE i16 double_low_shorts(i16 x) {
    return or_words(low_shorts(x), shift_left_words<16>(x));
}
SIMD_INLINE i16 double_high_shorts(i16 x) {
    return double_low_shorts({_mm256_srli_epi32(x.a, 16), _mm256_srli_epi32(x.b, 16)});
}
SIMD_INLINE __m256i pair_shorts8(__m256i x) {
    return _mm256_or_si256(_mm256_and_si256(x, _mm256_set1_epi32(0xffff)),
                           _mm256_slli_epi32(_mm256_srli_epi64(x, 32), 16));
}
/// Of each two words the low shorts, together in the first.
SIMD_INLINE i16 pair_shorts(i16 x) { return {pair_shorts8(x.a), pair_shorts8(x.b)}; }
/// Each byte of x and y, modulo 256.
SIMD_INLINE i16 add_bytes(i16 x, i16 y) {
    return {_mm256_add_epi8(x.a, y.a), _mm256_add_epi8(x.b, y.b)};
}
template <int mask>
SIMD_INLINE i16 mask_shorts(i16 x) {
    const __m256i bits = _mm256_set1_epi16(static_cast<short>(mask));
    return {_mm256_and_si256(x.a, bits), _mm256_and_si256(x.b, bits)};
}
SIMD_INLINE i16 multiply_shorts(i16 x, i16 y) {
    return {_mm256_mullo_epi16(x.a, y.a), _mm256_mullo_epi16(x.b, y.b)};
}
/// table[index] for each byte of `x`, an index below 16.
SIMD_INLINE i16 look_up(const std::uint8_t* table, i16 x) {
    const __m128i once = _mm_loadu_si128(reinterpret_cast<const __m128i*>(table));
    const __m256i twice = _mm256_broadcastsi128_si256(once);
    return {_mm256_shuffle_epi8(twice, x.a), _mm256_shuffle_epi8(twice, x.b)};
}
SIMD_INLINE __m256 units8(__m128i exponents) {
    const __m256i scale = _mm256_slli_epi32(_mm256_cvtepu8_epi32(exponents), 23);
    const __m256i least = _mm256_set1_epi32(0x00400000);
    return _mm256_mul_ps(_mm256_castsi256_ps(_mm256_max_epu32(scale, least)), _mm256_set1_ps(0.5f));
}
/// mxfp4_unit of 16 exponents.
SIMD_INLINE v16 load_units(const std::byte* p) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return {units8(bytes), units8(_mm_srli_si128(bytes, 8))};
}
SIMD_INLINE i16 add(i16 x, i16 y) {
    return {_mm256_add_epi32(x.a, y.a), _mm256_add_epi32(x.b, y.b)};
}
/// x, computed at this point: GCC would sink a row's sum to its first use, after the other rows,
/// and spill its operands until then.
SIMD_INLINE i16 materialized_here(i16 x) {
    __asm__("" : "+x"(x.a), "+x"(x.b));
    return x;
}
SIMD_INLINE v16 to_floats(i16 x) { return {_mm256_cvtepi32_ps(x.a), _mm256_cvtepi32_ps(x.b)}; }
SIMD_INLINE i16 round_to_words(v16 x) { return {_mm256_cvtps_epi32(x.a), _mm256_cvtps_epi32(x.b)}; }
SIMD_INLINE int sum_words(i16 x) {
    const __m256i eight = _mm256_add_epi32(x.a, x.b);
    __m128i four = _mm_add_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
    four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(four, _mm_shuffle_epi32(four, 0xb1)));
}
/// The low byte of each word.
SIMD_INLINE void store_low_bytes(void* p, i16 x) {
    const __m256i mask = _mm256_set1_epi32(255);
    const __m256i pairs =
        _mm256_packus_epi32(_mm256_and_si256(x.a, mask), _mm256_and_si256(x.b, mask));
    const __m256i ordered = _mm256_permute4x64_epi64(pairs, 0xd8);
    _mm_storeu_si128(
        static_cast<__m128i*>(p),
        _mm_packus_epi16(_mm256_castsi256_si128(ordered), _mm256_extracti128_si256(ordered, 1)));
}

SIMD_INLINE void transpose8x8(__m256i (&r)[8]) {
    __m256i a[8], b[8];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
        a[2 * i] = _mm256_unpacklo_epi32(r[2 * i], r[2 * i + 1]);
        a[2 * i + 1] = _mm256_unpackhi_epi32(r[2 * i], r[2 * i + 1]);
    }
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {
        b[4 * i] = _mm256_unpacklo_epi64(a[4 * i], a[4 * i + 2]);
        b[4 * i + 1] = _mm256_unpackhi_epi64(a[4 * i], a[4 * i + 2]);
        b[4 * i + 2] = _mm256_unpacklo_epi64(a[4 * i + 1], a[4 * i + 3]);
        b[4 * i + 3] = _mm256_unpackhi_epi64(a[4 * i + 1], a[4 * i + 3]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
        r[i] = _mm256_permute2x128_si256(b[i], b[i + 4], 0x20);
        r[i + 4] = _mm256_permute2x128_si256(b[i], b[i + 4], 0x31);
    }
}
/// Transposes the 8 x 8 words of the low halves, and those of the high halves.
SIMD_INLINE void transpose8(i16 (&r)[8]) {
    __m256i low[8], high[8];
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
        low[i] = r[i].a;
        high[i] = r[i].b;
    }
    transpose8x8(low);
    transpose8x8(high);
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
        r[i] = {low[i], high[i]};
    }
}

/// Two tokens' pairs of words.
SIMD_INLINE __m128i load_pairs(const std::byte* a, const std::byte* b) {
    return _mm_unpacklo_epi64(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(a)),
                              _mm_loadl_epi64(reinterpret_cast<const __m128i*>(b)));
}
SIMD_INLINE __m128i load_four(const std::byte* a) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(a));
}
/// 2 * upper words of 8 tokens with the token as lane; row(i): where those of token i begin.
template <int upper, class Row>
SIMD_INLINE void transpose_words8(const Row& row, __m256i (&words)[2 * upper]) {
    if constexpr (upper == 1) {
        const __m256 a = _mm256_castsi256_ps(
            _mm256_set_m128i(load_pairs(row(4), row(5)), load_pairs(row(0), row(1))));
        const __m256 b = _mm256_castsi256_ps(
            _mm256_set_m128i(load_pairs(row(6), row(7)), load_pairs(row(2), row(3))));
        words[0] = _mm256_castps_si256(_mm256_shuffle_ps(a, b, 0x88));
        words[1] = _mm256_castps_si256(_mm256_shuffle_ps(a, b, 0xdd));
    } else {
        __m256i r[4];
#pragma GCC unroll 4
        for (int i = 0; i < 4; ++i) {
            r[i] = _mm256_set_m128i(load_four(row(4 + i)), load_four(row(i)));
        }
        const __m256i a = _mm256_unpacklo_epi32(r[0], r[1]), b = _mm256_unpacklo_epi32(r[2], r[3]);
        const __m256i c = _mm256_unpackhi_epi32(r[0], r[1]), d = _mm256_unpackhi_epi32(r[2], r[3]);
        words[0] = _mm256_unpacklo_epi64(a, b);
        words[1] = _mm256_unpackhi_epi64(a, b);
        words[2] = _mm256_unpacklo_epi64(c, d);
        words[3] = _mm256_unpackhi_epi64(c, d);
    }
}
/// The same of 16 tokens.
template <int upper, class Row>
SIMD_INLINE void transpose_words(const Row& row, i16 (&words)[2 * upper]) {
    __m256i low[2 * upper], high[2 * upper];
    transpose_words8<upper>(row, low);
    transpose_words8<upper>([&row](int i) { return row(8 + i); }, high);
#pragma GCC unroll 4
    for (int i = 0; i < 2 * upper; ++i) {
        words[i] = {low[i], high[i]};
    }
}

/// What turns the q of one group of `bits` into fma(q, scale, bias).
template <int bits>
struct group_values {
    __m256 scale, bias;
};
template <>
struct group_values<16> {};
template <int bits>
SIMD_INLINE group_values<bits> make_values(float scale, float bias) {
    return {_mm256_set1_ps(scale), _mm256_set1_ps(bias)};
}
/// 16 values from `at`.
template <int bits>
SIMD_INLINE v16 take_values(const std::byte* at, const group_values<bits>& values) {
    if constexpr (bits == 8) {
        const v16 q = load_bytes(at);
        return {_mm256_fmadd_ps(q.a, values.scale, values.bias),
                _mm256_fmadd_ps(q.b, values.scale, values.bias)};
    } else {
        return load_half(at);
    }
}

/// All ones where x < y.
SIMD_INLINE i16 less_words(v16 x, v16 y) {
    return {_mm256_castps_si256(_mm256_cmp_ps(x.a, y.a, _CMP_LT_OQ)),
            _mm256_castps_si256(_mm256_cmp_ps(x.b, y.b, _CMP_LT_OQ))};
}
/// Whether x < y in any of the first n lanes.
SIMD_INLINE bool any_less(v16 x, v16 y, int n) {
    const i16 less = less_words(x, y);
    const unsigned low = static_cast<unsigned>(_mm256_movemask_ps(_mm256_castsi256_ps(less.a)));
    const unsigned high = static_cast<unsigned>(_mm256_movemask_ps(_mm256_castsi256_ps(less.b)));
    return ((low | high << 8) & ((1u << n) - 1u)) != 0;
}
/// The largest lane of each, in order.
SIMD_INLINE __m128 largest_of_four(__m256 a, __m256 b, __m256 c, __m256 d) {
    const __m256 ab = _mm256_max_ps(_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
    const __m256 cd = _mm256_max_ps(_mm256_unpacklo_ps(c, d), _mm256_unpackhi_ps(c, d));
    const __m256 all =
        _mm256_max_ps(_mm256_shuffle_ps(ab, cd, 0x44), _mm256_shuffle_ps(ab, cd, 0xee));
    return _mm_max_ps(_mm256_castps256_ps128(all), _mm256_extractf128_ps(all, 1));
}
/// Lane m < 8: the largest lane of x[m].
SIMD_INLINE v16 largest_each(const v16 (&x)[8]) {
    const auto halves = [&x](int m) SIMD { return _mm256_max_ps(x[m].a, x[m].b); };
    const __m128 low = largest_of_four(halves(0), halves(1), halves(2), halves(3));
    const __m128 high = largest_of_four(halves(4), halves(5), halves(6), halves(7));
    return {_mm256_set_m128(high, low), _mm256_setzero_ps()};
}
// 32 integers of 16 bits.
SIMD_INLINE i16 sub_shorts(i16 x, i16 y) {
    return {_mm256_sub_epi16(x.a, y.a), _mm256_sub_epi16(x.b, y.b)};
}
/// Up to 32767.
SIMD_INLINE i16 add_shorts_saturated(i16 x, i16 y) {
    return {_mm256_adds_epi16(x.a, y.a), _mm256_adds_epi16(x.b, y.b)};
}
template <int bits>
SIMD_INLINE i16 shift_left_shorts(i16 x) {
    return {_mm256_slli_epi16(x.a, bits), _mm256_slli_epi16(x.b, bits)};
}
template <int bits>
SIMD_INLINE i16 shift_right_shorts(i16 x) {
    return {_mm256_srli_epi16(x.a, bits), _mm256_srli_epi16(x.b, bits)};
}
SIMD_INLINE __m256i shift_right_each16(__m256i x, __m256i counts) {
    const __m256i low = _mm256_set1_epi32(0xffff);
    const __m256i even = _mm256_srlv_epi32(_mm256_and_si256(x, low), _mm256_and_si256(counts, low));
    const __m256i odd = _mm256_srlv_epi32(_mm256_srli_epi32(x, 16), _mm256_srli_epi32(counts, 16));
    return _mm256_or_si256(even, _mm256_slli_epi32(odd, 16));
}
/// Unsigned, each by its own count of at most 16.
SIMD_INLINE i16 shift_right_each(i16 x, i16 counts) {
    return {shift_right_each16(x.a, counts.a), shift_right_each16(x.b, counts.b)};
}
/// x * y / 2^16, unsigned, rounded down.
SIMD_INLINE i16 multiply_high(i16 x, i16 y) {
    return {_mm256_mulhi_epu16(x.a, y.a), _mm256_mulhi_epu16(x.b, y.b)};
}
/// x * y / 2^15, rounded half up.
SIMD_INLINE i16 multiply_rounded(i16 x, i16 y) {
    return {_mm256_mulhrs_epi16(x.a, y.a), _mm256_mulhrs_epi16(x.b, y.b)};
}
/// (x + y + 1) / 2, unsigned, rounded down.
SIMD_INLINE i16 average_shorts(i16 x, i16 y) {
    return {_mm256_avg_epu16(x.a, y.a), _mm256_avg_epu16(x.b, y.b)};
}
/// Products of neighbours, two to a word.
SIMD_INLINE i16 add_pairs(i16 sum, i16 x, i16 y) {
    return add(sum, {_mm256_madd_epi16(x.a, y.a), _mm256_madd_epi16(x.b, y.b)});
}
/// Words of 32 tokens -> shorts, the nearest there are: of each 4 words of x, then of y.
SIMD_INLINE i16 pack_shorts(i16 x, i16 y) {
    return {_mm256_packs_epi32(x.a, y.a), _mm256_packs_epi32(x.b, y.b)};
}
/// Shorts 0 to 255 of 64 tokens as pack_shorts gives them -> bytes: word 4 * l + i holds the tokens
/// 16 * i + 4 * l to + 3.
SIMD_INLINE i16 pack_bytes(i16 x, i16 y) {
    return {_mm256_packus_epi16(x.a, y.a), _mm256_packus_epi16(x.b, y.b)};
}
template <int middle>
SIMD_INLINE i16 from_middle(i16 x) {
    const __m256i less = _mm256_set1_epi8(middle);
    return {_mm256_sub_epi8(x.a, less), _mm256_sub_epi8(x.b, less)};
}
/// Field number `field` of each byte of a plane, to bit 4; other bits are any.
template <int upper>
SIMD_INLINE __m256i field_at_4(__m256i plane, int field) {
    const int up = 4 - field * upper;
    return up >= 0 ? _mm256_slli_epi16(plane, up) : _mm256_srli_epi16(plane, -up);
}
/// The planes of a group of 4 tokens as words of 4 tokens' bytes; lanes of 128 bits have the words
/// of bytes 0 and 4 * upper and of what follows these. out[1]: where upper is 2.
template <int upper>
SIMD_INLINE void quad_planes(const std::byte* a, const std::byte* b, const std::byte* c,
                             const std::byte* d, __m256i (&out)[2]) {
    const auto load_plane = [](const std::byte* at) SIMD {
        const auto* from = reinterpret_cast<const __m128i*>(at);
        return upper == 1 ? _mm_loadl_epi64(from) : _mm_loadu_si128(from);
    };
    const __m128i pa = load_plane(a), pb = load_plane(b), pc = load_plane(c), pd = load_plane(d);
    const __m128i ab = _mm_unpacklo_epi8(pa, pb), cd = _mm_unpacklo_epi8(pc, pd);
    const __m128i first = _mm_unpacklo_epi16(ab, cd), second = _mm_unpackhi_epi16(ab, cd);
    if constexpr (upper == 1) {
        out[0] = _mm256_set_m128i(second, first);
    } else {
        const __m128i ab2 = _mm_unpackhi_epi8(pa, pb), cd2 = _mm_unpackhi_epi8(pc, pd);
        out[0] = _mm256_set_m128i(_mm_unpacklo_epi16(ab2, cd2), first);
        out[1] = _mm256_set_m128i(_mm_unpackhi_epi16(ab2, cd2), second);
    }
}
/// 64 values of 4 tokens as words of 4 tokens' (u - H) / value_unit, in the order that value_order
/// undoes. sign_masks: a byte of each token, all ones where u is not q.
template <int bits>
SIMD_INLINE void quad_values(const std::byte* a, const std::byte* b, const std::byte* c,
                             const std::byte* d, const std::uint8_t* sign_masks, i16 (&out)[4]) {
    const __m256i flip = set1_word(sign_masks).a;
    const i16 ab = load_halves(a, b), cd = load_halves(c, d);
    const __m256i ab_low = _mm256_unpacklo_epi8(ab.a, ab.b);
    const __m256i ab_high = _mm256_unpackhi_epi8(ab.a, ab.b);
    const __m256i cd_low = _mm256_unpacklo_epi8(cd.a, cd.b);
    const __m256i cd_high = _mm256_unpackhi_epi8(cd.a, cd.b);
    const i16 words[2] = {{_mm256_xor_si256(_mm256_unpacklo_epi16(ab_low, cd_low), flip),
                           _mm256_xor_si256(_mm256_unpackhi_epi16(ab_low, cd_low), flip)},
                          {_mm256_xor_si256(_mm256_unpacklo_epi16(ab_high, cd_high), flip),
                           _mm256_xor_si256(_mm256_unpackhi_epi16(ab_high, cd_high), flip)}};
    i16 low[2], high[2];
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {
        low[i] = low_nibbles(words[i]);
        high[i] = high_nibbles(words[i]);
    }
    if constexpr (bits > 4) {
        constexpr int upper = bits - 4, mask = ((1 << upper) - 1) << 4;
        __m256i planes[2];
        quad_planes<upper>(a + 32, b + 32, c + 32, d + 32, planes);
#pragma GCC unroll 2
        for (int i = 0; i < 2; ++i) {
            // The words of byte 8 * i, then of byte 8 * i + 4.
            const int at = upper == 1 ? 4 * i : 0;
            const __m256i plane = _mm256_xor_si256(planes[upper == 1 ? 0 : i], flip);
            low[i] = or_masked<mask>(
                low[i], {field_at_4<upper>(plane, at), field_at_4<upper>(plane, at + 2)});
            high[i] = or_masked<mask>(
                high[i], {field_at_4<upper>(plane, at + 1), field_at_4<upper>(plane, at + 3)});
        }
    }
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {
        out[i] = from_middle<1 << (bits - 1)>(low[i]);
        out[2 + i] = from_middle<1 << (bits - 1)>(high[i]);
    }
}
SIMD_INLINE void order8(__m256 even, __m256 odd, __m256& low, __m256& high) {
    const __m256 a = _mm256_unpacklo_ps(even, odd), b = _mm256_unpackhi_ps(even, odd);
    low = _mm256_permute2f128_ps(a, b, 0x20);
    high = _mm256_permute2f128_ps(a, b, 0x31);
}
/// 64 sums in the order of quad_values -> the order of elements.
SIMD_INLINE void value_order(const float* x, v16 (&out)[4]) {
    const v16 a = load(x), b = load(x + 16), c = load(x + 32), d = load(x + 48);
    order8(a.a, c.a, out[0].a, out[2].a);
    order8(a.b, c.b, out[0].b, out[2].b);
    order8(b.a, d.a, out[1].a, out[3].a);
    order8(b.b, d.b, out[1].b, out[3].b);
}

/// Every second one of 32 f16 from p on, beginning with p[offset]; offset 0 or 1.
SIMD_INLINE v16 load_half_of_pairs(const half* p, int offset) {
    const i16 pairs = load_words(p);
    const auto wanted = [offset](__m256i x) SIMD {
        return offset == 0 ? _mm256_and_si256(x, _mm256_set1_epi32(0xffff))
                           : _mm256_srli_epi32(x, 16);
    };
    const __m256i packed = _mm256_packus_epi32(wanted(pairs.a), wanted(pairs.b));
    const __m256i ordered = _mm256_permute4x64_epi64(packed, 0xd8);
    return {_mm256_cvtph_ps(_mm256_castsi256_si128(ordered)),
            _mm256_cvtph_ps(_mm256_extracti128_si256(ordered, 1))};
}
