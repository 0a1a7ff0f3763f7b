// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the process keeps of the memory that it does not use.

#include <boost/asio/any_io_executor.hpp>

#include <cstddef>
#include <cstdint>

namespace semantic::server {

// A request of so many bytes took several times that while it was parsed and rendered.
constexpr std::size_t large_request_bytes = 4 * 1024 * 1024;

/// Bounds what the C library keeps of memory that is free: at most a heap for each core instead of
/// eight, and what is large goes back at once. By itself the library learns from the first large
/// buffer that is freed (a model's file) to keep twice as much at the end of each heap, which no
/// trim_memory() reaches. Before other threads are there.
void bound_heaps();

/// Gives what large requests have left free in the C library's heaps back to the system, on one of
/// `workers`: it takes milliseconds. From any thread; several calls at once are one.
void give_memory_back(const boost::asio::any_io_executor& workers);

/// The same here and now.
void trim_memory();

/// What the process has in RAM, in bytes; 0 where the system does not say.
struct process_memory {
    std::uint64_t resident = 0;
    std::uint64_t peak = 0;  // the most that it ever was
};
process_memory memory_now();

}  // namespace semantic::server
