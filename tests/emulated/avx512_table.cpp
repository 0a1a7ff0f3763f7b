// SPDX-License-Identifier: Apache-2.0
// The AVX-512 table as this program's CPU can run it: the same source, its instructions emulated.

#include "engine/kernels/attention_scratch.hpp"
#include "engine/kernels/block_forms.hpp"
#include "engine/kernels/exp_constants.hpp"
#include "engine/kernels/kv_constants.hpp"
#include "engine/kernels/mxfp4_codes.hpp"
#include "engine/kernels/tables.hpp"
#include "tests/emulated/avx512_instructions.hpp"

// The compiler may use AVX-512 itself in a function that is marked for it.
#define target(features)
#define always_inline  // see SIMDE_NO_INLINE
// Exists in addition to the library's own table.
#define avx512_kernels emulated_avx512_kernels

#include "engine/kernels/kernels_avx512.cpp"
