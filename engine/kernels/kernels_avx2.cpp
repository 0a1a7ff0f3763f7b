// SPDX-License-Identifier: Apache-2.0
// The table for CPUs with AVX2, FMA and F16C.

#if defined(__x86_64__)

#include <immintrin.h>

#include "engine/kernels/attention_scratch.hpp"
#include "engine/kernels/block_forms.hpp"
#include "engine/kernels/exp_constants.hpp"
#include "engine/kernels/kv_constants.hpp"
#include "engine/kernels/mxfp4_codes.hpp"
#include "engine/kernels/tables.hpp"

#define SIMD __attribute__((target("avx2,fma,f16c")))
#define SIMD_INLINE SIMD __attribute__((always_inline)) inline

namespace semantic::engine {
namespace {

#include "engine/kernels/simd/lanes_256.inl"

/// A running sum of products of unsigned and signed bytes, 4 to a word of 32 bits. `four_bit`: the
/// factors are so small that products are summed in 16 bits first; carry() then adds them to the
/// words, and must be called after 8 additions at the latest.
template <bool four_bit>
struct dot_sum {
    i16 words;
};
/// Integers of 4 bits: two products are at most 2 * 15 * 127, of which 8 pairs fit 16 bits. With
/// the levels of mxfp4 they are at most 2 * 24 * 127, of which 5 pairs fit.
template <>
struct dot_sum<true> {
    i16 words, pairs;
};
SIMD_INLINE void clear(dot_sum<false>& sum) { sum.words = zero_words(); }
SIMD_INLINE void clear(dot_sum<true>& sum) { sum = {zero_words(), zero_words()}; }
/// Starts a sum with the number at `p` in every word.
SIMD_INLINE void start(dot_sum<true>& sum, const std::int32_t* p) {
    sum = {set1_word(p), zero_words()};
}
SIMD_INLINE __m256i add_products8(__m256i sum, __m256i u, __m256i s) {
    // The instruction that multiplies bytes adds two products in 16 bits, where 2 * 255 * 127 does
    // not fit. So even and odd bytes are widened to 16 bits and multiplied on their own.
    const __m256i even = _mm256_madd_epi16(_mm256_and_si256(u, _mm256_set1_epi16(255)),
                                           _mm256_srai_epi16(_mm256_slli_epi16(s, 8), 8));
    const __m256i odd = _mm256_madd_epi16(_mm256_srli_epi16(u, 8), _mm256_srai_epi16(s, 8));
    return _mm256_add_epi32(sum, _mm256_add_epi32(even, odd));
}
SIMD_INLINE void add_products(dot_sum<false>& sum, i16 u, i16 s) {
    sum.words = {add_products8(sum.words.a, u.a, s.a), add_products8(sum.words.b, u.b, s.b)};
}
/// How many additions a dot_sum<true> takes before a carry() when one factor has `bits` bits and
/// the other is any byte: so often 2 * 255 * 2^(bits - 1), or 2 * (2^bits - 1) * 127, fits 16 bits.
/// 0: a dot_sum<false> is needed.
constexpr int carry_steps(int bits) { return bits == 8 ? 0 : 8 >> (bits - 4); }
/// Weights of 8 bits are multiplied as u - 128, because two products with |u - 128| fit 16 bits:
/// 2 * 128 * 127. The sums start with what this leaves out, 128 times the sum of s.
constexpr int byte_offset = -128;
SIMD_INLINE void start(dot_sum<false>& sum, const std::int32_t* halves) {
    sum.words = add(set1_word(halves), set1_word(halves + 1));
}
SIMD_INLINE __m256i add_weights8(__m256i sum, __m256i u, __m256i s) {
    const __m256i w = _mm256_xor_si256(u, _mm256_set1_epi8(-128));
    const __m256i pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(s, w));
    return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}
SIMD_INLINE void add_weights(dot_sum<false>& sum, i16 u, i16 s) {
    sum.words = {add_weights8(sum.words.a, u.a, s.a), add_weights8(sum.words.b, u.b, s.b)};
}
SIMD_INLINE void add_products(dot_sum<true>& sum, i16 u, i16 s) {
    sum.pairs = {_mm256_add_epi16(sum.pairs.a, _mm256_maddubs_epi16(u.a, s.a)),
                 _mm256_add_epi16(sum.pairs.b, _mm256_maddubs_epi16(u.b, s.b))};
}
SIMD_INLINE void carry(dot_sum<false>&) {}
SIMD_INLINE void carry(dot_sum<true>& sum) {
    const __m256i ones = _mm256_set1_epi16(1);
    sum.words = add(sum.words,
                    {_mm256_madd_epi16(sum.pairs.a, ones), _mm256_madd_epi16(sum.pairs.b, ones)});
    sum.pairs = zero_words();
}
template <bool four_bit>
SIMD_INLINE i16 materialized(const dot_sum<four_bit>& sum) {
    return materialized_here(sum.words);
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

constexpr kernel_table table = make_table("avx2");

}  // namespace

const kernel_table& avx2_kernels() noexcept { return table; }

}  // namespace semantic::engine

#endif
