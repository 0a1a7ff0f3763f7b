// SPDX-License-Identifier: Apache-2.0
#include "server/runtime/memory.hpp"

#include <boost/asio/post.hpp>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <malloc.h>
#include <string>
#include <thread>

namespace semantic::server {

void bound_heaps() {
    // One heap for each core at most. Free memory at a heap's end goes back to the system beyond
    // the first value, and a block of the second value or more is mapped alone, so that it goes
    // back when it is freed.
    constexpr int kept_at_the_end = 128 * 1024;
    constexpr int mapped_by_itself = 512 * 1024;
    // hardware_concurrency() is 0 where the system does not say.
    const unsigned cores = std::clamp(std::thread::hardware_concurrency(), 2u, 1024u);
    ::mallopt(M_ARENA_MAX, static_cast<int>(cores));
    ::mallopt(M_TRIM_THRESHOLD, kept_at_the_end);
    ::mallopt(M_MMAP_THRESHOLD, mapped_by_itself);
}

void give_memory_back(const boost::asio::any_io_executor& workers) {
    static std::atomic<bool> is_due{false};
    if (is_due.exchange(true)) return;
    boost::asio::post(workers, [] {
        is_due.store(false);  // first: what is freed from here on is another call's
        trim_memory();
    });
}

void trim_memory() { ::malloc_trim(0); }

process_memory memory_now() {
    std::ifstream status("/proc/self/status");
    process_memory now;
    std::string word;
    while (status >> word) {
        std::uint64_t kilobytes = 0;
        if (word == "VmHWM:" && status >> kilobytes) now.peak = kilobytes * 1024;
        if (word == "VmRSS:" && status >> kilobytes) now.resident = kilobytes * 1024;
    }
    return now;
}

}  // namespace semantic::server
