// SPDX-License-Identifier: Apache-2.0
// The tables that this program tests in place of those that its CPU has.

#include "tests/engine/kernels/table_under_test.hpp"

namespace semantic::engine {

const kernel_table& emulated_avx512_kernels() noexcept;
const kernel_table& emulated_avxvnni_kernels() noexcept;

namespace kernel_tests {

const kernel_table* table_under_test(std::string_view name) {
    // What the emulation itself is compiled for.
    const bool runs = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                      __builtin_cpu_supports("f16c");
    if (runs && name == "avx512") return &emulated_avx512_kernels();
    if (runs && name == "avxvnni") return &emulated_avxvnni_kernels();
    return nullptr;
}

}  // namespace kernel_tests
}  // namespace semantic::engine
