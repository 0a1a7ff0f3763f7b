// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the kernel is asked for about mapped pages: wishes, which may go unheard. Thread: any.

#include <cstddef>
#include <span>

namespace semantic::storage {

/// Asks for huge pages for a mapping, where the kernel can give them.
void prefer_huge_pages(std::span<const std::byte> mapping) noexcept;
/// Asks the kernel to read `part` of a mapping, which will be needed soon, in the background.
void prefetch(std::span<const std::byte> part) noexcept;

}  // namespace semantic::storage
