// SPDX-License-Identifier: Apache-2.0
#include "storage/files/mapping_advice.hpp"

#include <cstdint>
#include <sys/mman.h>
#include <unistd.h>

namespace semantic::storage {

namespace {

/// Gives the kernel an advice (MADV_*) for all pages that `part` touches. A refusal is ignored.
void advise(std::span<const std::byte> part, int wish) noexcept {
    const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
    const auto begin = reinterpret_cast<std::uintptr_t>(part.data()) / page * page;
    const auto end = reinterpret_cast<std::uintptr_t>(part.data()) + part.size();
    if (!part.empty()) ::madvise(reinterpret_cast<void*>(begin), end - begin, wish);
}

}  // namespace

void prefer_huge_pages(std::span<const std::byte> mapping) noexcept {
    advise(mapping, MADV_HUGEPAGE);
}

void prefetch(std::span<const std::byte> part) noexcept { advise(part, MADV_WILLNEED); }

}  // namespace semantic::storage
