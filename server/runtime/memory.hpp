// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the process keeps of the memory that it does not use.

#include <boost/asio/any_io_executor.hpp>

#include <cstddef>
#include <cstdint>

namespace semantic::server {

// A request of so many bytes took several times that while it was parsed and rendered.
constexpr std::size_t large_request_bytes = 4 * 1024 * 1024;

/// Bounds the free memory that the C library keeps: at most one heap for each core instead of
/// eight, and large buffers go back to the system at once. Without this the library, after the
/// first large buffer is freed (a model's file), keeps twice as much at the end of each heap, which
/// trim_memory() does not reach. Call it before other threads begin.
void bound_heaps();

/// Has trim_memory() run on one of `workers`, since it takes milliseconds. From any thread; several
/// calls at once are one.
void give_memory_back(const boost::asio::any_io_executor& workers);

/// Gives the free memory of the C library's heaps back to the system.
void trim_memory();

/// What the process has in RAM, in bytes; 0 where the system does not say.
struct process_memory {
    std::uint64_t resident = 0;
    std::uint64_t peak = 0;  // the most that it ever was
};
process_memory memory_now();

}  // namespace semantic::server
