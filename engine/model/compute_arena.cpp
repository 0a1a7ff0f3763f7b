// SPDX-License-Identifier: Apache-2.0
#include "engine/model/compute_arena.hpp"

#include <tbb/global_control.h>
#include <tbb/parallel_invoke.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <optional>

namespace semantic::engine {

struct compute_arena::impl {
    explicit impl(int threads) : arena(threads > 0 ? threads : tbb::task_arena::automatic) {
        // oneTBB's own limit is the number of cores; the caller may ask for more threads.
        if (threads > 0) {
            limit.emplace(tbb::global_control::max_allowed_parallelism,
                          static_cast<std::size_t>(threads));
        }
    }
    std::optional<tbb::global_control> limit;
    tbb::task_arena arena;
};

compute_arena::compute_arena(int threads) : impl_(std::make_unique<impl>(threads)) {}
compute_arena::~compute_arena() = default;

void compute_arena::run(const std::function<void()>& body) { impl_->arena.execute(body); }
void compute_arena::run_both(const std::function<void()>& one, const std::function<void()>& other) {
    run([&] { tbb::parallel_invoke(one, other); });
}
void compute_arena::run_later(std::function<void()> body) { impl_->arena.enqueue(std::move(body)); }
int compute_arena::threads() const noexcept { return impl_->arena.max_concurrency(); }

}  // namespace semantic::engine
