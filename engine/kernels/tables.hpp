// SPDX-License-Identifier: Apache-2.0
#pragma once
// The tables from which find_kernels chooses. Only dispatch.cpp and the kernel files include this.

#include "engine/kernels/kernels.hpp"

namespace semantic::engine {

const kernel_table& scalar_kernels() noexcept;
const kernel_table& portable_kernels() noexcept;
// Requires: the CPU has the instruction set (dispatch.cpp checks).
const kernel_table& avx2_kernels() noexcept;
const kernel_table& avxvnni_kernels() noexcept;
const kernel_table& avx512_kernels() noexcept;

}  // namespace semantic::engine
