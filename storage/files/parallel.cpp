// SPDX-License-Identifier: Apache-2.0
#include "storage/files/parallel.hpp"

#include <algorithm>
#include <system_error>

namespace semantic::storage {

namespace {

constexpr std::size_t threads_max = 4;

}  // namespace

// At least two threads, also on a single core: one can wait for the disk while the other computes.
file_workers::file_workers()
    : file_workers(std::clamp<std::size_t>(std::thread::hardware_concurrency(), 2, threads_max)) {}

file_workers::~file_workers() {
    std::lock_guard lock(mutex_);
    ending_ = true;
    came_.notify_all();
}

/// Starts threads until there are `helpers` of them, or as many as the system allows. Requires: the
/// mutex is held.
void file_workers::start(std::size_t helpers) {
    try {
        while (helpers_.size() < helpers) helpers_.emplace_back([this] { help(); });
    } catch (const std::system_error&) {
        // Fewer threads do the same work.
    }
}

/// What a helping thread runs until the object is destroyed.
void file_workers::help() {
    std::unique_lock lock(mutex_);
    for (;;) {
        came_.wait(lock, [this] { return ending_ || !open_.empty(); });
        if (open_.empty()) return;
        work_on(*open_.front(), lock);
    }
}

/// Takes jobs of `mine` one after the other until none is left that nobody has taken. Requires:
/// `lock` holds the mutex; it is released during each job. The owner may have destroyed `mine` when
/// this returns.
void file_workers::work_on(batch& mine, std::unique_lock<std::mutex>& lock) {
    while (mine.next < mine.count) {
        const std::size_t i = mine.next++;
        if (mine.next == mine.count) std::erase(open_, &mine);
        lock.unlock();
        mine.job(i);
        lock.lock();
        // run() wakes up only when this thread releases the mutex, so `mine` still exists here.
        if (++mine.done == mine.count) return done_.notify_all();
    }
}

void file_workers::run(std::size_t count, const std::function<void(std::size_t)>& job) {
    if (count == 0) return;
    if (count == 1) return job(0);
    batch mine{job, count};
    std::unique_lock lock(mutex_);
    start(std::min(threads_max_, count) - 1);
    open_.push_back(&mine);
    came_.notify_all();
    work_on(mine, lock);
    done_.wait(lock, [&] { return mine.done == mine.count; });
}

}  // namespace semantic::storage
