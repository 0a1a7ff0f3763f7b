// SPDX-License-Identifier: Apache-2.0
#include "storage/files/worker_pool.hpp"

namespace semantic::storage {

worker_pool::worker_pool(std::size_t thread_count) {
    threads_.reserve(thread_count);
    try {
        while (threads_.size() < thread_count) threads_.emplace_back([this] { pool_.attach(); });
    } catch (...) {
        pool_.stop();
        join_threads();
        throw;
    }
}

worker_pool::~worker_pool() {
    pool_.stop();
    join_threads();
}

void worker_pool::join() {
    if (threads_.empty()) return;
    pool_.wait();  // the threads end with the last work
    join_threads();
}

void worker_pool::join_threads() {
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
}

}  // namespace semantic::storage
