// SPDX-License-Identifier: Apache-2.0
#pragma once
// What one core of this machine can do at most, measured: loops that do one thing and nothing else.
// Rates are by CPU time of the calling thread. Reading memory is what one thread gets of it.

namespace semantic::perf {

/// A second. 0: the instruction set has no such unit to measure (scalar).
struct kernel_roofs {
    double memory_bytes = 0;     // read in order from a buffer that no cache holds
    double l1_bytes = 0;         // two reads and a write of sums in 16 KiB
    double int8_operations = 0;  // u8 x s8 products and additions, two a pair
    double f32_operations = 0;   // the same of fused multiply-adds
};

/// `kernels`: "avx512", "avxvnni" or "avx2" measure with the widest products these have; any other
/// name gives the two of memory alone, by what the compiler makes of them.
kernel_roofs measure_kernel_roofs(const char* kernels);

}  // namespace semantic::perf
