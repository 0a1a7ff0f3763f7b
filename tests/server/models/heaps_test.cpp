// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <thread>

#include "server/models/memory_limits.hpp"
#include "server/runtime/memory.hpp"

namespace semantic::server {
namespace {

constexpr std::size_t mib = std::size_t{1} << 20;

/// As a buffer of a model's file is: asked for, filled, freed.
void use_and_free(std::size_t bytes) {
    void* const buffer = std::malloc(bytes);
    // Through a volatile pointer, or the compiler leaves out what nobody reads.
    void* (*volatile fill)(void*, int, std::size_t) = std::memset;
    fill(buffer, 1, bytes);
    std::free(buffer);
}

/// What a thread's heap keeps of a buffer that it has freed, after one that was larger.
std::size_t kept_by_a_thread() {
    std::size_t kept = 0;
    std::thread thread([&] {
        use_and_free(30 * mib);
        const std::uint64_t before = own_memory();
        use_and_free(20 * mib);
        trim_memory();
        const std::uint64_t after = own_memory();
        kept = after > before ? after - before : 0;
    });
    thread.join();
    return kept;
}

TEST(heaps_DeathTest, that_are_bounded_give_back_what_is_large_and_free) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "sanitizers have heaps of their own";
#endif
    const auto bounded = [] {
        bound_heaps();
        std::_Exit(kept_by_a_thread() < mib ? 0 : 1);
    };
    EXPECT_EXIT(bounded(), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace semantic::server
