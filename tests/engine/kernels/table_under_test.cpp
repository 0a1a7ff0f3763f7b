// SPDX-License-Identifier: Apache-2.0
#include "tests/engine/kernels/table_under_test.hpp"

namespace semantic::engine::kernel_tests {

const kernel_table* table_under_test(std::string_view name) { return find_kernels(name); }

}  // namespace semantic::engine::kernel_tests
