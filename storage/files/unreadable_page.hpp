// SPDX-License-Identifier: Apache-2.0
#pragma once
// What is said when a page of a mapped file (mapped_file.hpp) cannot be read: the disk failed, or
// somebody cut the file off while it was mapped.

#include <cstddef>

namespace semantic::storage {

/// Files whose names can be said, of those that are mapped at once.
constexpr std::size_t mapped_names_max = 256;

/// From now on such a page ends the process by SIGBUS, as without this, after one line on standard
/// error that begins with `program` and names the file, unless mapped_names_max others are mapped;
/// of a path of more than 511 bytes the end is missing. `program` outlives all mappings. Thread:
/// any, once.
void report_unreadable_pages(const char* program) noexcept;

}  // namespace semantic::storage
