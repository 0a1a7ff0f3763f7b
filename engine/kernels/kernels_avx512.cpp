// SPDX-License-Identifier: Apache-2.0
// The table for CPUs with AVX-512 and VNNI: 16 lanes are one register. These functions wrap single
// intrinsics, or a few, for the kernels in simd/, which are written once for all instruction sets.
// Terms: a word has 32 bits, a short 16, a nibble 4. An i16 is a register of 16 words, which also
// holds 32 shorts or 64 bytes. A lane of 128 bits is a quarter of a register.

#if defined(__x86_64__)

#include <immintrin.h>

// GCC 12 takes the deliberately undefined sources inside its own intrinsics for mistakes of ours.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

#include "engine/kernels/attention_scratch.hpp"
#include "engine/kernels/block_forms.hpp"
#include "engine/kernels/exp_constants.hpp"
#include "engine/kernels/kv_constants.hpp"
#include "engine/kernels/mxfp4_codes.hpp"
#include "engine/kernels/tables.hpp"

#define SIMD               \
    __attribute__((target( \
        "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c,prefer-vector-width=512")))
#define SIMD_INLINE SIMD __attribute__((always_inline)) inline

namespace semantic::engine {
namespace {

struct v16 {
    __m512 v;
};
struct i16 {
    __m512i v;
};

// How many rows and tiles a kernel computes at once. A CPU has 32 registers, and starts 2
// operations a cycle that take 4 cycles, so at least 8 independent sums keep it busy. The comments
// count the registers.
constexpr int quant_rows_max = 6, quant_tiles = 2;    // 12 integer and 12 float sums
constexpr int float_rows_max = 6, float_tiles = 4;    // 24 sums, 4 weights
constexpr int score_rows_max = 12;                    // 12 integer and 12 float sums
constexpr int score_chains_rows = 4;                  // up to so many rows, two sums each
constexpr int value_rows_max = 6, value_lanes = 4;    // 24 sums, 4 values
constexpr int level_rows_max = 6, level_vectors = 4;  // the same in integers
constexpr int state_strips = 8;                       // 8 results, 8 changes
constexpr int packed_rows_max = 4;                    // up to so many read packed 4-bit tokens
/// The unit of the bytes that quad_values() makes. It puts values of `bits` bits into the upper
/// bits of a byte, so that they are 2^(8 - bits) times too large.
constexpr float value_unit(int bits) { return 1.0f / static_cast<float>(1 << (8 - bits)); }

/// The mask of the first n lanes, 0 to 16.
SIMD_INLINE __mmask16 first(int n) { return static_cast<__mmask16>((1u << n) - 1u); }

SIMD_INLINE v16 set1(float x) { return {_mm512_set1_ps(x)}; }
SIMD_INLINE v16 load(const float* p) { return {_mm512_loadu_ps(p)}; }
SIMD_INLINE v16 load_first(const float* p, int n) { return {_mm512_maskz_loadu_ps(first(n), p)}; }
SIMD_INLINE void store(float* p, v16 a) { _mm512_storeu_ps(p, a.v); }
SIMD_INLINE void store_first(float* p, int n, v16 a) { _mm512_mask_storeu_ps(p, first(n), a.v); }
SIMD_INLINE v16 load_half(const void* p) {
    return {_mm512_cvtph_ps(_mm256_loadu_si256(static_cast<const __m256i*>(p)))};
}
SIMD_INLINE v16 load_bfloat(const void* p) {
    const __m256i bits = _mm256_loadu_si256(static_cast<const __m256i*>(p));
    return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16))};
}
SIMD_INLINE v16 load_bytes(const void* p) {
    const __m128i bytes = _mm_loadu_si128(static_cast<const __m128i*>(p));
    return {_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(bytes))};
}

SIMD_INLINE v16 add(v16 a, v16 b) { return {_mm512_add_ps(a.v, b.v)}; }
SIMD_INLINE v16 sub(v16 a, v16 b) { return {_mm512_sub_ps(a.v, b.v)}; }
SIMD_INLINE v16 mul(v16 a, v16 b) { return {_mm512_mul_ps(a.v, b.v)}; }
SIMD_INLINE v16 div(v16 a, v16 b) { return {_mm512_div_ps(a.v, b.v)}; }
SIMD_INLINE v16 min(v16 a, v16 b) { return {_mm512_min_ps(a.v, b.v)}; }
SIMD_INLINE v16 max(v16 a, v16 b) { return {_mm512_max_ps(a.v, b.v)}; }
SIMD_INLINE v16 abs(v16 a) { return {_mm512_abs_ps(a.v)}; }
SIMD_INLINE v16 fma(v16 a, v16 b, v16 c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
SIMD_INLINE v16 fms(v16 a, v16 b, v16 c) { return {_mm512_fmsub_ps(a.v, b.v, c.v)}; }
SIMD_INLINE v16 round(v16 a) {
    return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
SIMD_INLINE v16 ceil(v16 a) {
    return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC)};
}
/// p * 2^n, where n is the integer in the low bits of `shifted`: it is added to p's exponent.
SIMD_INLINE v16 add_exponent(v16 p, v16 shifted) {
    const __m512i n = _mm512_slli_epi32(_mm512_castps_si512(shifted.v), 23);
    return {_mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(p.v), n))};
}
/// In each lane `then` where a < b, and else `otherwise`.
SIMD_INLINE v16 where_less(v16 a, v16 b, v16 then, v16 otherwise) {
    return {_mm512_mask_blend_ps(_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ), otherwise.v, then.v)};
}
/// Lanes [begin, end) of `a`, and the others of `otherwise`. The bounds may be outside of 0 to 16.
SIMD_INLINE v16 keep(v16 a, int begin, int end, v16 otherwise) {
    const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __mmask16 inside = _mm512_cmpge_epi32_mask(lane, _mm512_set1_epi32(begin)) &
                             _mm512_cmplt_epi32_mask(lane, _mm512_set1_epi32(end));
    return {_mm512_mask_blend_ps(inside, otherwise.v, a.v)};
}

/// Swaps lanes: lane i gets what lane i ^ width had. width: 1, 2, 4 or 8.
template <int width>
SIMD_INLINE v16 swap_lanes(v16 a) {
    if constexpr (width < 4) {
        return {_mm512_permute_ps(a.v, width == 1 ? 0xb1 : 0x4e)};
    } else {
        return {_mm512_shuffle_f32x4(a.v, a.v, width == 4 ? 0xb1 : 0x4e)};
    }
}

SIMD_INLINE __m256 high_half(__m512 a) {
    return _mm256_castsi256_ps(_mm512_extracti64x4_epi64(_mm512_castps_si512(a), 1));
}
SIMD_INLINE float fold4(__m128 a) {
    a = _mm_add_ps(a, _mm_movehl_ps(a, a));
    return _mm_cvtss_f32(_mm_add_ss(a, _mm_movehdup_ps(a)));
}
/// The sum of the lanes, added as 8+8, 4+4, 2+2 and 1+1: the order is part of the result's bits.
SIMD_INLINE float fold(v16 a) {
    const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(a.v), high_half(a.v));
    return fold4(_mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1)));
}
SIMD_INLINE float largest(v16 a) { return _mm512_reduce_max_ps(a.v); }
SIMD_INLINE float smallest(v16 a) { return _mm512_reduce_min_ps(a.v); }

SIMD_INLINE i16 zero_words() { return {_mm512_setzero_si512()}; }
SIMD_INLINE i16 load_words(const void* p) { return {_mm512_loadu_si512(p)}; }
SIMD_INLINE void store_words(void* p, i16 a) { _mm512_storeu_si512(p, a.v); }
SIMD_INLINE i16 set1_word(const void* p) {
    int word;
    __builtin_memcpy(&word, p, 4);
    return {_mm512_set1_epi32(word)};
}
SIMD_INLINE i16 low_nibbles(i16 a) { return {_mm512_and_si512(a.v, _mm512_set1_epi8(15))}; }
SIMD_INLINE i16 high_nibbles(i16 a) {
    return {_mm512_and_si512(_mm512_srli_epi16(a.v, 4), _mm512_set1_epi8(15))};
}
template <int mask>
SIMD_INLINE i16 mask_bytes(i16 a) {
    return {_mm512_and_si512(a.v, _mm512_set1_epi8(static_cast<char>(mask)))};
}
/// a | (b & mask)
template <int mask>
SIMD_INLINE i16 or_masked(i16 a, i16 b) {
    constexpr int or_and = 0xf8;
    return {_mm512_ternarylogic_epi32(a.v, b.v, _mm512_set1_epi8(static_cast<char>(mask)), or_and)};
}
SIMD_INLINE i16 or_words(i16 a, i16 b) { return {_mm512_or_si512(a.v, b.v)}; }
/// The two words at p, repeated through the register.
SIMD_INLINE i16 set2_words(const std::int32_t* p) {
    std::int64_t words;
    __builtin_memcpy(&words, p, 8);
    return {_mm512_set1_epi64(words)};
}
/// The 16 signed bytes at p as words.
SIMD_INLINE i16 widen_signed_bytes(const void* p) {
    return {_mm512_cvtepi8_epi32(_mm_loadu_si128(static_cast<const __m128i*>(p)))};
}
/// The 32 unsigned bytes at p as shorts.
SIMD_INLINE i16 widen_to_shorts(const void* p) {
    return {_mm512_cvtepu8_epi16(_mm256_loadu_si256(static_cast<const __m256i*>(p)))};
}
SIMD_INLINE i16 widen_signed_to_shorts(const void* p) {
    return {_mm512_cvtepi8_epi16(_mm256_loadu_si256(static_cast<const __m256i*>(p)))};
}
template <int bits>
SIMD_INLINE i16 shift_left_words(i16 a) {
    return {_mm512_slli_epi32(a.v, bits)};
}
/// Shifts signed words to the right, keeping their signs.
template <int bits>
SIMD_INLINE i16 shift_right_words(i16 a) {
    return {bits == 0 ? a.v : _mm512_srai_epi32(a.v, bits)};
}
/// Each word's low short as an unsigned word.
SIMD_INLINE i16 low_shorts(i16 a) { return {_mm512_and_si512(a.v, _mm512_set1_epi32(0xffff))}; }
/// Each word's low short in both of its halves; the next does so with the high short.
SIMD_INLINE i16 double_low_shorts(i16 a) {
    return or_words(low_shorts(a), {_mm512_slli_epi32(a.v, 16)});
}
SIMD_INLINE i16 double_high_shorts(i16 a) {
    return double_low_shorts({_mm512_srli_epi32(a.v, 16)});
}
/// Puts the low shorts of each two neighbouring words together in the first of them. The second
/// keeps its own.
SIMD_INLINE i16 pair_shorts(i16 a) {
    return or_words(low_shorts(a), {_mm512_slli_epi32(_mm512_srli_epi64(a.v, 32), 16)});
}
/// Adds byte by byte, modulo 256.
SIMD_INLINE i16 add_bytes(i16 a, i16 b) { return {_mm512_add_epi8(a.v, b.v)}; }
template <int mask>
SIMD_INLINE i16 mask_shorts(i16 a) {
    return {_mm512_and_si512(a.v, _mm512_set1_epi16(static_cast<short>(mask)))};
}
SIMD_INLINE i16 multiply_shorts(i16 a, i16 b) { return {_mm512_mullo_epi16(a.v, b.v)}; }
/// table[index] for each byte of `a`, an index below 16.
SIMD_INLINE i16 look_up(const std::uint8_t* table, i16 a) {
    const __m128i once = _mm_loadu_si128(reinterpret_cast<const __m128i*>(table));
    return {_mm512_shuffle_epi8(_mm512_broadcast_i32x4(once), a.v)};
}
/// mxfp4_unit() of 16 exponents at p: half of 2^(exponent - 127), where the least exponent gives a
/// denormal number.
SIMD_INLINE v16 load_units(const std::byte* p) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    const __m512i scale = _mm512_slli_epi32(_mm512_cvtepu8_epi32(bytes), 23);
    const __m512i least = _mm512_set1_epi32(0x00400000);
    return mul({_mm512_castsi512_ps(_mm512_max_epu32(scale, least))}, set1(0.5f));
}
SIMD_INLINE i16 add(i16 a, i16 b) { return {_mm512_add_epi32(a.v, b.v)}; }
SIMD_INLINE i16 add_dots(i16 sums, i16 u, i16 s) { return {_mm512_dpbusd_epi32(sums.v, u.v, s.v)}; }

#include "engine/kernels/simd/vnni.inl"

SIMD_INLINE i16 materialized(const dot_sum<true>& sum) { return sum.words; }
SIMD_INLINE v16 to_floats(i16 a) { return {_mm512_cvtepi32_ps(a.v)}; }
SIMD_INLINE i16 round_to_words(v16 a) { return {_mm512_cvtps_epi32(a.v)}; }
SIMD_INLINE int sum_words(i16 a) { return _mm512_reduce_add_epi32(a.v); }
SIMD_INLINE void store_low_bytes(void* p, i16 a) {
    _mm_storeu_si128(static_cast<__m128i*>(p), _mm512_cvtepi32_epi8(a.v));
}
/// 8 words from each of two addresses.
SIMD_INLINE i16 load_halves(const void* low, const void* high) {
    const __m256i a = _mm256_loadu_si256(static_cast<const __m256i*>(low));
    const __m256i b = _mm256_loadu_si256(static_cast<const __m256i*>(high));
    return {_mm512_inserti64x4(_mm512_castsi256_si512(a), b, 1)};
}
SIMD_INLINE i16 load_halves_widened(const void* low, const void* high) {
    const __m128i a = _mm_loadu_si128(static_cast<const __m128i*>(low));
    const __m128i b = _mm_loadu_si128(static_cast<const __m128i*>(high));
    return {_mm512_castps_si512(_mm512_cvtph_ps(_mm256_set_m128i(b, a)))};
}

/// Transposes the 8 x 8 words in the low halves of the registers, and those in the high halves.
SIMD_INLINE void transpose8(i16 (&r)[8]) {
    __m512i a[8], b[8];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
        a[2 * i] = _mm512_unpacklo_epi32(r[2 * i].v, r[2 * i + 1].v);
        a[2 * i + 1] = _mm512_unpackhi_epi32(r[2 * i].v, r[2 * i + 1].v);
    }
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {
        b[4 * i] = _mm512_unpacklo_epi64(a[4 * i], a[4 * i + 2]);
        b[4 * i + 1] = _mm512_unpackhi_epi64(a[4 * i], a[4 * i + 2]);
        b[4 * i + 2] = _mm512_unpacklo_epi64(a[4 * i + 1], a[4 * i + 3]);
        b[4 * i + 3] = _mm512_unpackhi_epi64(a[4 * i + 1], a[4 * i + 3]);
    }
    const __m512i even = _mm512_setr_epi64(0, 1, 8, 9, 4, 5, 12, 13);
    const __m512i odd = _mm512_setr_epi64(2, 3, 10, 11, 6, 7, 14, 15);
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
        r[i].v = _mm512_permutex2var_epi64(b[i], even, b[i + 4]);
        r[i + 4].v = _mm512_permutex2var_epi64(b[i], odd, b[i + 4]);
    }
}

SIMD_INLINE __m128i load_four_words(const std::byte* p) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
}
/// Two words from each of two addresses.
SIMD_INLINE __m128i load_pairs(const std::byte* a, const std::byte* b) {
    const __m128d low = _mm_load_sd(reinterpret_cast<const double*>(a));
    return _mm_castpd_si128(_mm_loadh_pd(low, reinterpret_cast<const double*>(b)));
}
SIMD_INLINE __m512i four_lanes(__m128i a, __m128i b, __m128i c, __m128i d) {
    return _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_set_m128i(b, a)),
                              _mm256_set_m128i(d, c), 1);
}
/// Loads 2 * upper words of each of 16 tokens, and transposes them: words[i] has word i of token t
/// in lane t. row(t): the address of token t's words.
template <int upper, class Row>
SIMD_INLINE void transpose_words(const Row& row, i16 (&words)[2 * upper]) {
    if constexpr (upper == 1) {
        __m512 r[2];  // tokens 4n, 4n + 1 and 4n + 2, 4n + 3 in lanes of 128 bits
#pragma GCC unroll 2
        for (int i = 0; i < 2; ++i) {
            const auto pair = [&row, i](int n) SIMD {
                return load_pairs(row(4 * n + 2 * i), row(4 * n + 2 * i + 1));
            };
            r[i] = _mm512_castsi512_ps(four_lanes(pair(0), pair(1), pair(2), pair(3)));
        }
        words[0].v = _mm512_castps_si512(_mm512_shuffle_ps(r[0], r[1], 0x88));
        words[1].v = _mm512_castps_si512(_mm512_shuffle_ps(r[0], r[1], 0xdd));
    } else {
        __m512i r[4];  // token 4n + i in lane n of r[i]
#pragma GCC unroll 4
        for (int i = 0; i < 4; ++i) {
            r[i] = four_lanes(load_four_words(row(i)), load_four_words(row(4 + i)),
                              load_four_words(row(8 + i)), load_four_words(row(12 + i)));
        }
        const __m512i a = _mm512_unpacklo_epi32(r[0], r[1]), b = _mm512_unpacklo_epi32(r[2], r[3]);
        const __m512i c = _mm512_unpackhi_epi32(r[0], r[1]), d = _mm512_unpackhi_epi32(r[2], r[3]);
        words[0].v = _mm512_unpacklo_epi64(a, b);
        words[1].v = _mm512_unpackhi_epi64(a, b);
        words[2].v = _mm512_unpacklo_epi64(c, d);
        words[3].v = _mm512_unpackhi_epi64(c, d);
    }
}

/// The scale and bias of a group of values of `bits` bits, in all lanes; nothing for f16 values.
template <int bits>
struct group_values {
    __m512 scale, bias;
};
template <>
struct group_values<16> {};
template <int bits>
SIMD_INLINE group_values<bits> make_values(float scale, float bias) {
    const __m512 wide_scale = _mm512_set1_ps(scale), wide_bias = _mm512_set1_ps(bias);
    return {wide_scale, wide_bias};
}
/// 16 values as floats, from 8-bit integers or f16 numbers at `at`.
template <int bits>
SIMD_INLINE v16 take_values(const std::byte* at, const group_values<bits>& values) {
    if constexpr (bits == 8) {
        return {_mm512_fmadd_ps(load_bytes(at).v, values.scale, values.bias)};
    } else {
        return load_half(at);
    }
}

/// Words of all ones where a < b, and 0 elsewhere.
SIMD_INLINE i16 less_words(v16 a, v16 b) {
    return {_mm512_movm_epi32(_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ))};
}
/// Whether a < b in any of the first n lanes.
SIMD_INLINE bool any_less(v16 a, v16 b, int n) {
    return _mm512_mask_cmp_ps_mask(first(n), a.v, b.v, _CMP_LT_OQ) != 0;
}
/// A register with the largest lane of x[m] in lane m, for m below 8. The lanes after these are
/// repeated ones.
SIMD_INLINE v16 largest_each(const v16 (&x)[8]) {
    __m512 fours[4], lanes[2];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {  // then each row has two lanes of 128 bits
        const __m512 a = x[i].v, b = x[i + 4].v;
        fours[i] =
            _mm512_max_ps(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xee));
    }
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {  // then one; lanes[i] has the rows i, i + 4, i + 2 and i + 6
        const __m512 a = fours[i], b = fours[i + 2];
        lanes[i] =
            _mm512_max_ps(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd));
    }
    // Then one of lanes[0] and one of lanes[1] share a lane of 128 bits.
    const __m512 pairs = _mm512_max_ps(_mm512_unpacklo_ps(lanes[0], lanes[1]),
                                       _mm512_unpackhi_ps(lanes[0], lanes[1]));
    const __m512 all = _mm512_max_ps(pairs, _mm512_permute_ps(pairs, 0x4e));
    // The lanes of 128 bits now begin with rows 0 and 1, 4 and 5, 2 and 3, 6 and 7: sorts them.
    const __m512i from = _mm512_setr_epi32(0, 1, 8, 9, 4, 5, 12, 13, 0, 1, 8, 9, 4, 5, 12, 13);
    return {_mm512_permutexvar_ps(from, all)};
}
// The next ones take registers of 32 shorts.
SIMD_INLINE i16 sub_shorts(i16 a, i16 b) { return {_mm512_sub_epi16(a.v, b.v)}; }
/// Adds signed shorts; sums beyond 32767 become 32767.
SIMD_INLINE i16 add_shorts_saturated(i16 a, i16 b) { return {_mm512_adds_epi16(a.v, b.v)}; }
template <int bits>
SIMD_INLINE i16 shift_left_shorts(i16 a) {
    return {_mm512_slli_epi16(a.v, bits)};
}
template <int bits>
SIMD_INLINE i16 shift_right_shorts(i16 a) {
    return {_mm512_srli_epi16(a.v, bits)};
}
/// Shifts unsigned shorts to the right, each by its own count of at most 16.
SIMD_INLINE i16 shift_right_each(i16 a, i16 counts) { return {_mm512_srlv_epi16(a.v, counts.v)}; }
/// a * b / 2^16, unsigned, rounded down.
SIMD_INLINE i16 multiply_high(i16 a, i16 b) { return {_mm512_mulhi_epu16(a.v, b.v)}; }
/// a * b / 2^15, rounded half up.
SIMD_INLINE i16 multiply_rounded(i16 a, i16 b) { return {_mm512_mulhrs_epi16(a.v, b.v)}; }
/// (a + b + 1) / 2, unsigned, rounded down.
SIMD_INLINE i16 average_shorts(i16 a, i16 b) { return {_mm512_avg_epu16(a.v, b.v)}; }
/// Multiplies signed shorts, and adds the products of the two in each word to the word in `sum`.
SIMD_INLINE i16 add_pairs(i16 sum, i16 a, i16 b) { return {_mm512_dpwssd_epi32(sum.v, a.v, b.v)}; }
/// Makes shorts of the words of 32 tokens; those out of range become the nearest short. Each lane
/// of 128 bits has 4 of a and then 4 of b.
SIMD_INLINE i16 pack_shorts(i16 a, i16 b) { return {_mm512_packs_epi32(a.v, b.v)}; }
/// Makes bytes of the shorts of 64 tokens, 0 to 255, in the order of pack_shorts(). Word 4 * l + i
/// of the result has the 4 tokens from 16 * i + 4 * l on.
SIMD_INLINE i16 pack_bytes(i16 a, i16 b) { return {_mm512_packus_epi16(a.v, b.v)}; }
/// Loads the planes (the bits above the low four, see kv_rows) of a group of 4 tokens, one token
/// after the other. upper: how many bits these are, which take 2 * upper words of a token.
template <int upper>
SIMD_INLINE __m512i load_planes(const std::byte* a, const std::byte* b, const std::byte* c,
                                const std::byte* d) {
    if constexpr (upper == 1) {
        return _mm512_castsi256_si512(_mm256_set_m128i(load_pairs(c, d), load_pairs(a, b)));
    } else {
        return four_lanes(load_four_words(a), load_four_words(b), load_four_words(c),
                          load_four_words(d));
    }
}
/// Transposes bytes: each lane of 128 bits has a word of each of 4 tokens, and gets 4 words that
/// have a byte of each token.
SIMD_INLINE __m512i interleave_four(__m512i x) {
    return _mm512_shuffle_epi8(x, _mm512_broadcast_i32x4(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2,
                                                                       6, 10, 14, 3, 7, 11, 15)));
}
/// Counts for a shift of shorts: the same in all shorts of a lane of 128 bits.
SIMD_INLINE __m512i short_counts(int a, int b, int c, int d) {
    const __m512i words = _mm512_setr_epi32(a, a, a, a, b, b, b, b, c, c, c, c, d, d, d, d);
    return _mm512_or_si512(words, _mm512_slli_epi32(words, 16));
}
/// Puts the upper bits of elements, from `planes`, above their nibbles in `low` and `high`, which
/// are the registers i and 2 + i of quad_values().
template <int upper>
SIMD_INLINE void put_above(__m512i planes, int i, __m512i& low, __m512i& high) {
    // For each lane of 128 bits, the words of the 4 tokens that have the bits of its elements.
    const __m512i words =
        upper == 1 ? _mm512_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6, 0, 2, 4, 6, 0, 2, 4, 6)
                   : _mm512_setr_epi32(0, 4, 8, 12, 0, 4, 8, 12, 1, 5, 9, 13, 1, 5, 9, 13);
    const __m512i from = _mm512_add_epi32(words, _mm512_set1_epi32(upper * i));
    const __m512i x = interleave_four(_mm512_permutexvar_epi32(from, planes));
    // `counts` shifts the bits for the low nibbles to the top of their bytes, `next` those for the
    // high nibbles.
    const __m512i counts = upper == 1 ? short_counts(7, 5, 3, 1) : short_counts(6, 2, 6, 2);
    const __m512i next = upper == 1 ? short_counts(6, 4, 2, 0) : short_counts(4, 0, 4, 0);
    const __m512i nibbles = _mm512_set1_epi8(15 << (4 - upper));
    constexpr int choose = 0xca;  // bit by bit: nibbles ? value : plane
    low = _mm512_ternarylogic_epi32(nibbles, low, _mm512_sllv_epi16(x, counts), choose);
    high = _mm512_ternarylogic_epi32(nibbles, high, _mm512_sllv_epi16(x, next), choose);
}
/// Unpacks a group of 64 values of 4 tokens into words that have a byte of each token: u - H of
/// formula (16) of ARITHMETIC.md, divided by value_unit(bits). value_order() undoes the order of
/// the words. sign_masks: for each token a byte of all ones where its scale is negative, so that u
/// is 2H - 1 - q and not q.
template <int bits>
SIMD_INLINE void quad_values(const std::byte* a, const std::byte* b, const std::byte* c,
                             const std::byte* d, const std::uint8_t* sign_masks, i16 (&out)[4]) {
    const __m512i ab = load_halves(a, b).v, cd = load_halves(c, d).v;
    [[maybe_unused]] __m512i planes = ab;
    if constexpr (bits > 4) {
        planes = load_planes<bits - 4>(a + 32, b + 32, c + 32, d + 32);
    }
    // For each lane of 128 bits, the same word of each token.
    const __m512i words =
        _mm512_setr_epi32(0, 8, 16, 24, 1, 9, 17, 25, 2, 10, 18, 26, 3, 11, 19, 27);
    // The value goes into the upper bits of a byte, where flipping the topmost one subtracts H, and
    // flipping all of them (2H - 1 - q) is done by the sign mask.
    const __m512i mask = _mm512_set1_epi8(static_cast<char>(0xff << (8 - bits)));
    const __m512i sign =
        _mm512_xor_si512(set1_word(sign_masks).v, _mm512_set1_epi8(static_cast<char>(0x80)));
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {
        const __m512i from = _mm512_add_epi32(words, _mm512_set1_epi32(4 * i));
        const __m512i x = interleave_four(_mm512_permutex2var_epi32(ab, from, cd));
        __m512i low = _mm512_slli_epi16(x, 8 - bits), high = x;
        if constexpr (bits > 4) {
            high = _mm512_srli_epi16(x, bits - 4);
            put_above<bits - 4>(planes, i, low, high);
        }
        constexpr int xor_and = 0x28;  // (x ^ sign) & mask
        out[i].v = _mm512_ternarylogic_epi32(low, sign, mask, xor_and);
        out[2 + i].v = _mm512_ternarylogic_epi32(high, sign, mask, xor_and);
    }
}
/// Loads 64 sums that are in the order of quad_values(), in the order of elements.
SIMD_INLINE void value_order(const float* x, v16 (&out)[4]) {
    const __m512i lower = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    const __m512i upper = _mm512_add_epi32(lower, _mm512_set1_epi32(8));
    const v16 a = load(x), b = load(x + 16), c = load(x + 32), d = load(x + 48);
    out[0].v = _mm512_permutex2var_ps(a.v, lower, c.v);
    out[1].v = _mm512_permutex2var_ps(a.v, upper, c.v);
    out[2].v = _mm512_permutex2var_ps(b.v, lower, d.v);
    out[3].v = _mm512_permutex2var_ps(b.v, upper, d.v);
}

/// Every second one of 32 f16 from p on, beginning with p[offset]; offset 0 or 1.
SIMD_INLINE v16 load_half_of_pairs(const half* p, int offset) {
    const __m512i pairs = _mm512_loadu_si512(p);
    const __m512i wanted = offset == 0 ? pairs : _mm512_srli_epi32(pairs, 16);
    return {_mm512_cvtph_ps(_mm512_cvtepi32_epi16(wanted))};
}

// The kernels. Each file uses the ones before it.
// clang-format off
#include "engine/kernels/simd/elements.inl"
#include "engine/kernels/simd/recurrence.inl"
#include "engine/kernels/simd/kv_rows.inl"
#include "engine/kernels/simd/linear.inl"
#include "engine/kernels/simd/linear_blocks.inl"
#include "engine/kernels/simd/linear_unpacked.inl"
#include "engine/kernels/simd/attend.inl"
#include "engine/kernels/simd/attend_tiles_unpack.inl"
#include "engine/kernels/simd/attend_tiles_prefetch.inl"
#include "engine/kernels/simd/attend_tiles_softmax.inl"
#include "engine/kernels/simd/attend_tiles_products.inl"
#include "engine/kernels/simd/attend_tiles.inl"
// clang-format on

constexpr kernel_table table = make_table("avx512");

}  // namespace

const kernel_table& avx512_kernels() noexcept { return table; }

}  // namespace semantic::engine

#endif
