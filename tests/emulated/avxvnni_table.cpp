// SPDX-License-Identifier: Apache-2.0
// The AVX-VNNI table as this program's CPU can run it: the same source, its one instruction beyond
// AVX2 emulated.

#include <immintrin.h>

#include <cstdint>

#include "engine/kernels/attention_scratch.hpp"
#include "engine/kernels/block_forms.hpp"
#include "engine/kernels/exp_constants.hpp"
#include "engine/kernels/kv_constants.hpp"
#include "engine/kernels/mxfp4_codes.hpp"
#include "engine/kernels/tables.hpp"

namespace semantic::tests {

/// VPDPBUSD as Intel's Intrinsics Guide states it: 4 products of an unsigned and a signed byte are
/// added to each word. Inlined into everything, it takes minutes to compile.
[[gnu::noinline]] __m256i dpbusd(__m256i sums, __m256i u, __m256i s) {
    alignas(32) std::int32_t words[8];
    alignas(32) std::uint8_t left[32];
    alignas(32) std::int8_t right[32];
    _mm256_store_si256(reinterpret_cast<__m256i*>(words), sums);
    _mm256_store_si256(reinterpret_cast<__m256i*>(left), u);
    _mm256_store_si256(reinterpret_cast<__m256i*>(right), s);
    for (int i = 0; i < 32; ++i) words[i / 4] += left[i] * right[i];
    return _mm256_load_si256(reinterpret_cast<const __m256i*>(words));
}

}  // namespace semantic::tests

// The compiler may use AVX-VNNI itself in a function that is marked for it.
#define target(features)
#define _mm256_dpbusd_avx_epi32 semantic::tests::dpbusd
// Exists in addition to the library's own table.
#define avxvnni_kernels emulated_avxvnni_kernels

#include "engine/kernels/kernels_avxvnni.cpp"
