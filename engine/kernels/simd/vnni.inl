// SPDX-License-Identifier: Apache-2.0
// Sums of products of bytes where one instruction multiplies and adds 4 to a word: what
// kernels_avx512.cpp and kernels_avxvnni.cpp have in common. They define add_dots before this,
// which does so with unsigned u and signed s.

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
    sum.words = add_dots(sum.words, u, s);
}
/// How many products of a value of so many bits add_products takes before a carry, always the same.
constexpr int carry_steps(int) { return 8; }
constexpr int byte_offset = 0;  // bytes of weights are multiplied as they are
SIMD_INLINE void add_weights(dot_sum<false>& sum, i16 u, i16 s) { add_products(sum, u, s); }
template <bool four_bit>
SIMD_INLINE void carry(dot_sum<four_bit>&) {}
