// SPDX-License-Identifier: Apache-2.0
#pragma once
// The AVX-512 instructions that the AVX-512 table uses, computed by what every CPU with AVX2 has:
// those that SIMDe knows by SIMDe, the others here, lane by lane, as Intel's Intrinsics Guide
// states them. Only for tests: the table's arithmetic can be run where no CPU has AVX-512.
// Included before the table's source, whose names it redirects.

#include <immintrin.h>
#define SIMDE_NO_INLINE  // inlined into everything, they take minutes to compile
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <simde/x86/avx512.h>

namespace semantic::tests::avx512 {

using floats = simde__m512;
using integers = simde__m512i;
using mask = simde__mmask16;

/// The 16 lanes of a register, of 4 bytes each; or its 32 of 2.
template <class Lane>
struct lanes_of {
    static constexpr int count = 64 / sizeof(Lane);
    Lane at[count];

    template <class Register>
    static lanes_of from(const Register& x) {
        static_assert(sizeof(Register) == sizeof(lanes_of));
        lanes_of lanes;
        std::memcpy(lanes.at, &x, sizeof lanes);
        return lanes;
    }
    template <class Register>
    Register as() const {
        Register x;
        std::memcpy(&x, at, sizeof x);
        return x;
    }
};
using float_lanes = lanes_of<float>;
using word_lanes = lanes_of<std::int32_t>;
using short_lanes = lanes_of<std::uint16_t>;

inline bool is_set(mask k, int lane) { return (k >> lane & 1) != 0; }

/// body(lane) for each of 16.
template <class Lane, class Body>
lanes_of<Lane> each(Body body) {
    lanes_of<Lane> lanes;
    for (int i = 0; i < lanes_of<Lane>::count; ++i) lanes.at[i] = body(i);
    return lanes;
}

inline floats cvtph_ps(__m256i halves) {
    const __m256 low = _mm256_cvtph_ps(_mm256_castsi256_si128(halves));
    const __m256 high = _mm256_cvtph_ps(_mm256_extracti128_si256(halves, 1));
    float_lanes x;
    _mm256_storeu_ps(x.at, low);
    _mm256_storeu_ps(x.at + 8, high);
    return x.as<floats>();
}
inline integers cvtepu8_epi32(__m128i bytes) {
    std::uint8_t b[16];
    std::memcpy(b, &bytes, sizeof b);
    return each<std::int32_t>([&](int i) { return std::int32_t{b[i]}; }).as<integers>();
}
inline integers cvtepi8_epi32(__m128i bytes) {
    std::int8_t b[16];
    std::memcpy(b, &bytes, sizeof b);
    return each<std::int32_t>([&](int i) { return std::int32_t{b[i]}; }).as<integers>();
}
inline integers cvtepu16_epi32(__m256i shorts) {
    std::uint16_t s[16];
    std::memcpy(s, &shorts, sizeof s);
    return each<std::int32_t>([&](int i) { return std::int32_t{s[i]}; }).as<integers>();
}
inline integers cvtepu8_epi16(__m256i bytes) {
    std::uint8_t b[32];
    std::memcpy(b, &bytes, sizeof b);
    return each<std::uint16_t>([&](int i) { return std::uint16_t{b[i]}; }).as<integers>();
}
inline integers srai_epi32(integers words, int bits) {
    const auto w = word_lanes::from(words);
    return each<std::int32_t>([&](int i) { return w.at[i] >> bits; }).as<integers>();
}
inline floats cvtepi32_ps(integers words) {
    const auto w = word_lanes::from(words);
    return each<float>([&](int i) { return static_cast<float>(w.at[i]); }).as<floats>();
}
/// To nearest, ties to even: the rounding that is in effect. What no word holds becomes the least.
inline integers cvtps_epi32(floats x) {
    const auto f = float_lanes::from(x);
    return each<std::int32_t>([&](int i) { return _mm_cvtss_si32(_mm_set_ss(f.at[i])); })
        .as<integers>();
}
/// The low part of each word.
inline __m128i cvtepi32_epi8(integers words) {
    const auto w = word_lanes::from(words);
    std::uint8_t bytes[16];
    for (int i = 0; i < 16; ++i) bytes[i] = static_cast<std::uint8_t>(w.at[i]);
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes));
}
inline __m256i cvtepi32_epi16(integers words) {
    const auto w = word_lanes::from(words);
    std::uint16_t shorts[16];
    for (int i = 0; i < 16; ++i) shorts[i] = static_cast<std::uint16_t>(w.at[i]);
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(shorts));
}
/// As MINPS and MAXPS do: the second where neither is less.
inline float reduce_min_ps(floats x) {
    const auto f = float_lanes::from(x);
    float least = f.at[0];
    for (const float value : f.at) least = value < least ? value : least;
    return least;
}
inline float reduce_max_ps(floats x) {
    const auto f = float_lanes::from(x);
    float most = f.at[0];
    for (const float value : f.at) most = value > most ? value : most;
    return most;
}
inline int reduce_add_epi32(integers words) {
    const auto w = word_lanes::from(words);
    std::uint32_t sum = 0;
    for (const std::int32_t word : w.at) sum += static_cast<std::uint32_t>(word);
    return static_cast<int>(sum);
}
/// To whole numbers. SIMDe 0.7 rounds to the nearest whatever `how` says.
template <int how>
floats round_ps(floats x) {
    auto f = float_lanes::from(x);
    _mm256_storeu_ps(f.at, _mm256_round_ps(_mm256_loadu_ps(f.at), how));
    _mm256_storeu_ps(f.at + 8, _mm256_round_ps(_mm256_loadu_ps(f.at + 8), how));
    return f.as<floats>();
}
/// Within each 128 bits: lane i is the one that the i-th pair of bits names.
inline floats permute_ps(floats x, int order) {
    const auto f = float_lanes::from(x);
    return each<float>([&](int i) { return f.at[i / 4 * 4 + (order >> i % 4 * 2 & 3)]; })
        .as<floats>();
}
inline integers mulhi_epu16(integers a, integers b) {
    const auto x = short_lanes::from(a), y = short_lanes::from(b);
    return each<std::uint16_t>([&](int i) {
               return static_cast<std::uint16_t>(std::uint32_t{x.at[i]} * y.at[i] >> 16);
           })
        .as<integers>();
}
/// Lanes that are not set are neither read nor written.
inline floats maskz_loadu_ps(mask k, const void* from) {
    const auto* p = static_cast<const float*>(from);
    return each<float>([&](int i) { return is_set(k, i) ? p[i] : 0.0f; }).as<floats>();
}
inline void mask_storeu_ps(void* to, mask k, floats x) {
    const auto f = float_lanes::from(x);
    auto* p = static_cast<float*>(to);
    for (int i = 0; i < 16; ++i)
        if (is_set(k, i)) p[i] = f.at[i];
}
inline mask cmplt_epi32_mask(integers a, integers b) {
    const auto x = word_lanes::from(a), y = word_lanes::from(b);
    unsigned less = 0;
    for (int i = 0; i < 16; ++i) less |= static_cast<unsigned>(x.at[i] < y.at[i]) << i;
    return static_cast<mask>(less);
}

}  // namespace semantic::tests::avx512

#define __m512 simde__m512
#define __m512i simde__m512i
#define _mm512_mask_cmp_ps_mask(k, a, b, how) \
    static_cast<simde__mmask16>((k)&simde_mm512_cmp_ps_mask(a, b, how))
#define _mm512_roundscale_ps(x, how) semantic::tests::avx512::round_ps<(how)>(x)
#define _mm512_cvtph_ps semantic::tests::avx512::cvtph_ps
#define _mm512_cvtepu8_epi32 semantic::tests::avx512::cvtepu8_epi32
#define _mm512_cvtepi8_epi32 semantic::tests::avx512::cvtepi8_epi32
#define _mm512_cvtepi32_ps semantic::tests::avx512::cvtepi32_ps
#define _mm512_reduce_min_ps semantic::tests::avx512::reduce_min_ps
#define _mm512_reduce_max_ps semantic::tests::avx512::reduce_max_ps
#define _mm512_reduce_add_epi32 semantic::tests::avx512::reduce_add_epi32
#define _mm512_permute_ps semantic::tests::avx512::permute_ps
#define _mm512_mulhi_epu16 semantic::tests::avx512::mulhi_epu16
#define _mm512_maskz_loadu_ps semantic::tests::avx512::maskz_loadu_ps
#define _mm512_mask_storeu_ps semantic::tests::avx512::mask_storeu_ps
#define _mm512_cvtps_epi32 semantic::tests::avx512::cvtps_epi32
#define _mm512_cvtepu16_epi32 semantic::tests::avx512::cvtepu16_epi32
#define _mm512_cvtepu8_epi16 semantic::tests::avx512::cvtepu8_epi16
#define _mm512_srai_epi32 semantic::tests::avx512::srai_epi32
#define _mm512_cvtepi32_epi8 semantic::tests::avx512::cvtepi32_epi8
#define _mm512_cvtepi32_epi16 semantic::tests::avx512::cvtepi32_epi16
#define _mm512_cmplt_epi32_mask semantic::tests::avx512::cmplt_epi32_mask
#define _mm512_abs_ps simde_mm512_abs_ps
#define _mm512_add_epi32 simde_mm512_add_epi32
#define _mm512_add_epi8 simde_mm512_add_epi8
#define _mm512_add_ps simde_mm512_add_ps
#define _mm512_adds_epi16 simde_mm512_adds_epi16
#define _mm512_and_si512 simde_mm512_and_si512
#define _mm512_avg_epu16 simde_mm512_avg_epu16
#define _mm512_broadcast_i32x4 simde_mm512_broadcast_i32x4
#define _mm512_castps512_ps256 simde_mm512_castps512_ps256
#define _mm512_castps_si512 simde_mm512_castps_si512
#define _mm512_castsi256_si512 simde_mm512_castsi256_si512
#define _mm512_castsi512_ps simde_mm512_castsi512_ps
#define _mm512_cvtepi8_epi16 simde_mm512_cvtepi8_epi16
#define _mm512_cmp_ps_mask simde_mm512_cmp_ps_mask
#define _mm512_cmpge_epi32_mask simde_mm512_cmpge_epi32_mask
#define _mm512_div_ps simde_mm512_div_ps
#define _mm512_dpbusd_epi32 simde_mm512_dpbusd_epi32
#define _mm512_dpwssd_epi32 simde_mm512_dpwssd_epi32
#define _mm512_extracti64x4_epi64 simde_mm512_extracti64x4_epi64
#define _mm512_fmadd_ps simde_mm512_fmadd_ps
#define _mm512_fmsub_ps simde_mm512_fmsub_ps
#define _mm512_inserti64x4 simde_mm512_inserti64x4
#define _mm512_loadu_ps simde_mm512_loadu_ps
#define _mm512_loadu_si512 simde_mm512_loadu_si512
#define _mm512_mask_blend_ps simde_mm512_mask_blend_ps
#define _mm512_max_epu32 simde_mm512_max_epu32
#define _mm512_max_ps simde_mm512_max_ps
#define _mm512_min_ps simde_mm512_min_ps
#define _mm512_movm_epi32 simde_mm512_movm_epi32
#define _mm512_mul_ps simde_mm512_mul_ps
#define _mm512_mulhrs_epi16 simde_mm512_mulhrs_epi16
#define _mm512_mullo_epi16 simde_mm512_mullo_epi16
#define _mm512_or_si512 simde_mm512_or_si512
#define _mm512_packs_epi32 simde_mm512_packs_epi32
#define _mm512_packus_epi16 simde_mm512_packus_epi16
#define _mm512_permutex2var_epi32 simde_mm512_permutex2var_epi32
#define _mm512_permutex2var_epi64 simde_mm512_permutex2var_epi64
#define _mm512_permutex2var_ps simde_mm512_permutex2var_ps
#define _mm512_permutexvar_epi32 simde_mm512_permutexvar_epi32
#define _mm512_permutexvar_ps simde_mm512_permutexvar_ps
#define _mm512_set1_epi16 simde_mm512_set1_epi16
#define _mm512_set1_epi32 simde_mm512_set1_epi32
#define _mm512_set1_epi64 simde_mm512_set1_epi64
#define _mm512_set1_epi8 simde_mm512_set1_epi8
#define _mm512_set1_ps simde_mm512_set1_ps
#undef _mm512_setr_epi32
#define _mm512_setr_epi32 simde_mm512_setr_epi32
#undef _mm512_setr_epi64
#define _mm512_setr_epi64 simde_mm512_setr_epi64
#define _mm512_setzero_si512 simde_mm512_setzero_si512
#define _mm512_shuffle_epi8 simde_mm512_shuffle_epi8
#define _mm512_shuffle_f32x4 simde_mm512_shuffle_f32x4
#define _mm512_shuffle_ps simde_mm512_shuffle_ps
#define _mm512_slli_epi16 simde_mm512_slli_epi16
#define _mm512_slli_epi32 simde_mm512_slli_epi32
#define _mm512_sllv_epi16 simde_mm512_sllv_epi16
#define _mm512_srli_epi16 simde_mm512_srli_epi16
#define _mm512_srli_epi32 simde_mm512_srli_epi32
#define _mm512_srli_epi64 simde_mm512_srli_epi64
#define _mm512_srlv_epi16 simde_mm512_srlv_epi16
#define _mm512_storeu_ps simde_mm512_storeu_ps
#define _mm512_storeu_si512 simde_mm512_storeu_si512
#define _mm512_sub_epi16 simde_mm512_sub_epi16
#define _mm512_sub_ps simde_mm512_sub_ps
#define _mm512_ternarylogic_epi32 simde_mm512_ternarylogic_epi32
#define _mm512_unpackhi_epi32 simde_mm512_unpackhi_epi32
#define _mm512_unpackhi_epi64 simde_mm512_unpackhi_epi64
#define _mm512_unpackhi_ps simde_mm512_unpackhi_ps
#define _mm512_unpacklo_epi32 simde_mm512_unpacklo_epi32
#define _mm512_unpacklo_epi64 simde_mm512_unpacklo_epi64
#define _mm512_unpacklo_ps simde_mm512_unpacklo_ps
#define _mm512_xor_si512 simde_mm512_xor_si512
