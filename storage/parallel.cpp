#include "storage/parallel.hpp"

#include <algorithm>
#include <atomic>
#include <system_error>
#include <thread>
#include <vector>

namespace semantic::storage {

namespace {

constexpr std::size_t threads_max = 4;

}  // namespace

void run_parallel(std::size_t count, const std::function<void(std::size_t)>& job) {
    std::atomic<std::size_t> next{0};
    const auto work = [&] {
        for (std::size_t i = next++; i < count; i = next++) job(i);
    };
    // A single core still gains where the disk has to be waited for.
    const std::size_t cores = std::max(2u, std::thread::hardware_concurrency());
    const std::size_t threads = std::min({count, threads_max, cores});
    std::vector<std::jthread> others;
    try {
        for (std::size_t i = 1; i < threads; ++i) others.emplace_back(work);
    } catch (const std::system_error&) {
        // Fewer threads do the same work.
    }
    work();
}

}  // namespace semantic::storage
