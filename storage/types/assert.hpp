// SPDX-License-Identifier: Apache-2.0
#pragma once
// ASSERT: a programmer's error ends the program, in release builds too. Never reachable from the
// wire or from a file.

#include <cstdio>
#include <cstdlib>

namespace semantic::storage {

[[noreturn]] inline void assertion_failed(const char* condition, const char* file,
                                          int line) noexcept {
    std::fprintf(stderr, "%s:%d: assertion failed: %s\n", file, line, condition);
    std::abort();
}

}  // namespace semantic::storage

#define ASSERT(condition) \
    ((condition) ? void(0) : ::semantic::storage::assertion_failed(#condition, __FILE__, __LINE__))
