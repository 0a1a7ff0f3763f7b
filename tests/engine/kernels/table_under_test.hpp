// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which tables the kernel tests run. Each program that has these tests defines it: engine_tests by
// what the CPU runs, emulated_tests by those whose instructions it emulates.

#include <string_view>

#include "engine/kernels/kernels.hpp"

namespace semantic::engine::kernel_tests {

/// Returns: null where there is none of that name.
const kernel_table* table_under_test(std::string_view name);

}  // namespace semantic::engine::kernel_tests
