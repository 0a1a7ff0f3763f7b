// SPDX-License-Identifier: Apache-2.0
#pragma once
// What is said when a page of a mapped file (mapped_file.hpp) cannot be read: the disk failed, or
// somebody cut the file off while it was mapped.

#include <cstddef>

namespace semantic::storage {

/// How many mapped files can be named; a fault in a further one is reported without a name.
constexpr std::size_t mapped_names_max = 256;

/// Installs a handler of SIGBUS. When a page of a mapped file cannot be read, it writes one line to
/// standard error that begins with `program` and names the file (the first 511 bytes of its path),
/// and ends the process by SIGBUS, as without a handler. `program` outlives all mappings. Call
/// once, from any thread.
void report_unreadable_pages(const char* program) noexcept;

}  // namespace semantic::storage
