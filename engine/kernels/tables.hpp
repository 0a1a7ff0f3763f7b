#pragma once
// The tables behind find_kernels. Only dispatch.cpp and the kernel files include this.

#include "engine/kernels/kernels.hpp"

namespace semantic::engine {

/// Values are widened this many tokens at a time: 64 x 64 floats fill a third of a 48 KiB L1. The
/// weights of 4-bit values are rounded in tiles of as many tokens, which is part of the definition.
inline constexpr int attention_value_tokens = 64;

const kernel_table& scalar_kernels() noexcept;
const kernel_table& portable_kernels() noexcept;
// Requires: the CPU runs the instruction set (dispatch.cpp asks).
const kernel_table& avx2_kernels() noexcept;
const kernel_table& avxvnni_kernels() noexcept;
const kernel_table& avx512_kernels() noexcept;

}  // namespace semantic::engine
