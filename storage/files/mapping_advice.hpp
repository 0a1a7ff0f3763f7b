// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the kernel is asked for about mapped pages: wishes, which may go unheard. Thread: any.

#include <cstddef>
#include <span>

namespace semantic::storage {

/// Asks for huge pages where a mapping can have them.
void prefer_huge_pages(std::span<const std::byte> mapping) noexcept;
/// Says that `part` of a mapping is about to be read.
void prefetch(std::span<const std::byte> part) noexcept;

}  // namespace semantic::storage
