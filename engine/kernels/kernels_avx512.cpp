// The table for CPUs with AVX-512 and VNNI: 16 lanes are one register.

#if defined(__x86_64__)

#include <immintrin.h>

// GCC 12 takes the deliberately undefined sources inside its own intrinsics for mistakes of ours.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

#include "engine/kernels/exp_constants.hpp"
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

// Shapes of the register tiles, from 32 registers and a latency of 4 at 2 operations a cycle.
constexpr int quant_rows_max = 6, quant_tiles = 2;  // 12 integer and 12 float sums
constexpr int float_rows_max = 6, float_tiles = 4;  // 24 sums, 4 weights
constexpr int score_rows_max = 12;                  // 12 integer and 12 float sums
constexpr int score_chains_rows = 4;                // up to so many rows, two sums each
constexpr int score_few_rows = 4;                   // so many rows go without a key tile
constexpr int value_rows_max = 6, value_lanes = 4;  // 24 sums, 4 values
constexpr int level_rows_max = 6, level_vectors = 4;  // the same in integers

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
/// p * 2^n, where n sits in the low bits of `shifted`.
SIMD_INLINE v16 add_exponent(v16 p, v16 shifted) {
    const __m512i n = _mm512_slli_epi32(_mm512_castps_si512(shifted.v), 23);
    return {_mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(p.v), n))};
}
SIMD_INLINE v16 where_less(v16 a, v16 b, v16 then, v16 otherwise) {
    return {_mm512_mask_blend_ps(_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ), otherwise.v, then.v)};
}
/// Lanes [begin, end) of `a`, the others from `otherwise`. Any begin and end.
SIMD_INLINE v16 keep(v16 a, int begin, int end, v16 otherwise) {
    const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __mmask16 inside = _mm512_cmpge_epi32_mask(lane, _mm512_set1_epi32(begin)) &
                             _mm512_cmplt_epi32_mask(lane, _mm512_set1_epi32(end));
    return {_mm512_mask_blend_ps(inside, otherwise.v, a.v)};
}

SIMD_INLINE __m256 high_half(__m512 a) {
    return _mm256_castsi256_ps(_mm512_extracti64x4_epi64(_mm512_castps_si512(a), 1));
}
SIMD_INLINE float fold4(__m128 a) {
    a = _mm_add_ps(a, _mm_movehl_ps(a, a));
    return _mm_cvtss_f32(_mm_add_ss(a, _mm_movehdup_ps(a)));
}
/// Sum of the lanes, folding 8+8, 4+4, 2+2, 1+1.
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
/// table[index] for each byte of `a`, an index below 16.
SIMD_INLINE i16 look_up(const std::uint8_t* table, i16 a) {
    const __m128i once = _mm_loadu_si128(reinterpret_cast<const __m128i*>(table));
    return {_mm512_shuffle_epi8(_mm512_broadcast_i32x4(once), a.v)};
}
/// mxfp4_unit of 16 exponents.
SIMD_INLINE v16 load_units(const std::byte* p) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    const __m512i scale = _mm512_slli_epi32(_mm512_cvtepu8_epi32(bytes), 23);
    const __m512i least = _mm512_set1_epi32(0x00400000);
    return mul({_mm512_castsi512_ps(_mm512_max_epu32(scale, least))}, set1(0.5f));
}
SIMD_INLINE i16 add(i16 a, i16 b) { return {_mm512_add_epi32(a.v, b.v)}; }
/// A running sum of products u8 * s8, 4 to a word; carry() at least every 8 additions.
template <bool four_bit>
struct dot_sum {
    i16 words;
};
template <bool four_bit>
SIMD_INLINE void clear(dot_sum<four_bit>& sum) {
    sum.words = zero_words();
}
/// Starts from the number at `p` in every word.
template <bool four_bit>
SIMD_INLINE void start(dot_sum<four_bit>& sum, const std::int32_t* p) {
    sum.words = set1_word(p);
}
template <bool four_bit>
SIMD_INLINE void add_products(dot_sum<four_bit>& sum, i16 u, i16 s) {
    sum = {{_mm512_dpbusd_epi32(sum.words.v, u.v, s.v)}};
}
template <bool four_bit>
SIMD_INLINE void carry(dot_sum<four_bit>&) {}
SIMD_INLINE v16 to_floats(i16 a) { return {_mm512_cvtepi32_ps(a.v)}; }
SIMD_INLINE i16 round_to_words(v16 a) { return {_mm512_cvtps_epi32(a.v)}; }
SIMD_INLINE int sum_words(i16 a) { return _mm512_reduce_add_epi32(a.v); }
SIMD_INLINE void store_low_bytes(void* p, i16 a) {
    _mm_storeu_si128(static_cast<__m128i*>(p), _mm512_cvtepi32_epi8(a.v));
}
/// 8 words from each of two places.
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

/// Transposes the 8 x 8 words of the low halves, and those of the high halves.
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

/// What turns the q of one group of `bits` into fma(q, scale, bias).
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
/// 16 values from `at`.
template <int bits>
SIMD_INLINE v16 take_values(const std::byte* at, const group_values<bits>& values) {
    if constexpr (bits == 8) {
        return {_mm512_fmadd_ps(load_bytes(at).v, values.scale, values.bias)};
    } else {
        return load_half(at);
    }
}

/// Lane i < 8: the sum of the low half of r[i]; lane 8 + i: of its high half.
SIMD_INLINE i16 fold_halves(const i16 (&r)[8]) {
    __m512i fours[2];
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {
        const i16* x = r + 4 * i;
        const __m512i a = _mm512_add_epi32(_mm512_unpacklo_epi32(x[0].v, x[1].v),
                                           _mm512_unpackhi_epi32(x[0].v, x[1].v));
        const __m512i b = _mm512_add_epi32(_mm512_unpacklo_epi32(x[2].v, x[3].v),
                                           _mm512_unpackhi_epi32(x[2].v, x[3].v));
        fours[i] = _mm512_add_epi32(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
    }
    const __m512i even = _mm512_setr_epi64(0, 1, 8, 9, 4, 5, 12, 13);
    const __m512i odd = _mm512_setr_epi64(2, 3, 10, 11, 6, 7, 14, 15);
    return {_mm512_add_epi32(_mm512_permutex2var_epi64(fours[0], even, fours[1]),
                             _mm512_permutex2var_epi64(fours[0], odd, fours[1]))};
}

/// All ones where a < b.
SIMD_INLINE i16 less_words(v16 a, v16 b) {
    return {_mm512_movm_epi32(_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ))};
}
/// 32 bytes from each of two places, each flipped by a word.
SIMD_INLINE i16 flip_halves(const std::byte* low, const std::int32_t* flip_low,
                            const std::byte* high, const std::int32_t* flip_high) {
    const __m256i a = _mm256_xor_si256(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(low)),
                                       _mm256_set1_epi32(*flip_low));
    const __m256i b = _mm256_xor_si256(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(high)),
                                       _mm256_set1_epi32(*flip_high));
    return {_mm512_inserti64x4(_mm512_castsi256_si512(a), b, 1)};
}
/// Byte i of a, b, c and d side by side, in each half: words 16 * (l % 2) + 4 * j + i of lane l of
/// 128 bits.
SIMD_INLINE void interleave_bytes(const i16 (&x)[4], i16 (&out)[4]) {
    const __m512i ab_low = _mm512_unpacklo_epi8(x[0].v, x[1].v);
    const __m512i ab_high = _mm512_unpackhi_epi8(x[0].v, x[1].v);
    const __m512i cd_low = _mm512_unpacklo_epi8(x[2].v, x[3].v);
    const __m512i cd_high = _mm512_unpackhi_epi8(x[2].v, x[3].v);
    out[0].v = _mm512_unpacklo_epi16(ab_low, cd_low);
    out[1].v = _mm512_unpackhi_epi16(ab_low, cd_low);
    out[2].v = _mm512_unpacklo_epi16(ab_high, cd_high);
    out[3].v = _mm512_unpackhi_epi16(ab_high, cd_high);
}
SIMD_INLINE i16 from_eight(i16 a) { return {_mm512_sub_epi8(a.v, _mm512_set1_epi8(8))}; }
/// The high half of a changes places with the low half of b.
SIMD_INLINE void swap_halves(i16& a, i16& b) {
    const __m512i low = _mm512_shuffle_i64x2(a.v, b.v, 0x44);
    b.v = _mm512_shuffle_i64x2(a.v, b.v, 0xee);
    a.v = low;
}
/// 64 sums in the order of quad_values -> the order of elements.
SIMD_INLINE void value_order(float* x) {
    const __m512i from =
        _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 8, 24, 9, 25, 10, 26, 11, 27);
    const __m512i upper = _mm512_add_epi32(from, _mm512_set1_epi32(4));
    const v16 a = load(x), b = load(x + 16), c = load(x + 32), d = load(x + 48);
    store(x, {_mm512_permutex2var_ps(a.v, from, c.v)});
    store(x + 16, {_mm512_permutex2var_ps(b.v, from, d.v)});
    store(x + 32, {_mm512_permutex2var_ps(a.v, upper, c.v)});
    store(x + 48, {_mm512_permutex2var_ps(b.v, upper, d.v)});
}

/// f16 `offset`, `offset + stride`, ...: 16 of them. Reads p[0] to p[16 * stride - 1] only.
SIMD_INLINE v16 load_half_strided(const half* p, int stride, int offset) {
    if (stride == 2) {
        const __m512i pairs = _mm512_loadu_si512(p);
        const __m512i wanted = offset == 0 ? pairs : _mm512_srli_epi32(pairs, 16);
        return {_mm512_cvtph_ps(_mm512_cvtepi32_epi16(wanted))};
    }
    half buffer[16];
    for (int i = 0; i < 16; ++i) {
        buffer[i] = p[i * stride + offset];
    }
    return load_half(buffer);
}

// Each builds on the one before.
// clang-format off
#include "engine/kernels/simd_elements.inl"
#include "engine/kernels/simd_linear.inl"
#include "engine/kernels/simd_attend.inl"
// clang-format on

constexpr kernel_table table = make_table("avx512");

}  // namespace

const kernel_table& avx512_kernels() noexcept { return table; }

}  // namespace semantic::engine

#endif
