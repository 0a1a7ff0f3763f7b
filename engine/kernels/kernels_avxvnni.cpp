// SPDX-License-Identifier: Apache-2.0
// The table for CPUs that multiply bytes with AVX-VNNI and have no AVX-512: Intel's of 2021 and
// later for desks and laps. The rest is AVX2's.

#if defined(__x86_64__)

#include <immintrin.h>

#include "engine/kernels/attention_scratch.hpp"
#include "engine/kernels/block_forms.hpp"
#include "engine/kernels/exp_constants.hpp"
#include "engine/kernels/kv_constants.hpp"
#include "engine/kernels/mxfp4_codes.hpp"
#include "engine/kernels/tables.hpp"

#define SIMD __attribute__((target("avx2,fma,f16c,avxvnni")))
#define SIMD_INLINE SIMD __attribute__((always_inline)) inline

namespace semantic::engine {
namespace {

#include "engine/kernels/simd/lanes_256.inl"

SIMD_INLINE i16 add_dots(i16 sums, i16 u, i16 s) {
    return {_mm256_dpbusd_avx_epi32(sums.a, u.a, s.a), _mm256_dpbusd_avx_epi32(sums.b, u.b, s.b)};
}

#include "engine/kernels/simd/vnni.inl"

SIMD_INLINE i16 materialized(const dot_sum<true>& sum) { return materialized_here(sum.words); }

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

constexpr kernel_table table = make_table("avxvnni");

}  // namespace

const kernel_table& avxvnni_kernels() noexcept { return table; }

}  // namespace semantic::engine

#endif
