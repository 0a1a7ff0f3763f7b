// The AVX-512 table as this program's CPU can run it: the same source, its instructions emulated.

#include "engine/kernels/exp_constants.hpp"
#include "engine/kernels/mxfp4_codes.hpp"
#include "engine/kernels/tables.hpp"
#include "tests/emulated/avx512_instructions.hpp"
#include "tests/engine/kernels/table_under_test.hpp"

// The compiler may use AVX-512 itself in a function that is marked for it.
#define target(features)
#define always_inline  // see SIMDE_NO_INLINE
// Beside the real one of the library.
#define avx512_kernels emulated_avx512_kernels

#include "engine/kernels/kernels_avx512.cpp"

namespace semantic::engine::kernel_tests {

const kernel_table* table_under_test(std::string_view name) {
    // What the emulation itself is compiled for.
    const bool runs = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                      __builtin_cpu_supports("f16c");
    return runs && name == "avx512" ? &emulated_avx512_kernels() : nullptr;
}

}  // namespace semantic::engine::kernel_tests
