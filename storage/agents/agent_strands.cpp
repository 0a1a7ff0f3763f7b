// SPDX-License-Identifier: Apache-2.0
#include "storage/agents/agent_strands.hpp"

#include <boost/asio/post.hpp>
#include <boost/asio/strand.hpp>

#include <condition_variable>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "storage/files/worker_pool.hpp"

namespace semantic::storage {

namespace asio = boost::asio;

struct agent_strands::impl {
    using strand = asio::strand<asio::thread_pool::executor_type>;
    /// The queue of one agent.
    struct line {
        strand order;
        // Jobs of this agent that wait or run.
        std::size_t pending = 0;
    };

    impl(std::size_t thread_count, std::size_t most) : pending_max(most), threads(thread_count) {}

    /// Runs one job of the agent on a thread of the pool, and then counts it as done.
    void run(const agent_id& agent, std::function<void()> job) noexcept {
        job();
        job = nullptr;  // drain() returns only after what the job captured is destroyed, too
        std::lock_guard lock(mutex);
        const auto found = lines.find(agent);
        // An idle agent has no strand, so that the map is never larger than what is pending.
        if (--found->second.pending == 0) lines.erase(found);
        if (--pending == 0) idle.notify_all();
    }

    // `pending` counts the jobs of all agents that wait or run; post() keeps it within
    // `pending_max`.
    const std::size_t pending_max;
    mutable std::mutex mutex;
    std::condition_variable idle;
    std::unordered_map<agent_id, line> lines;
    std::size_t pending = 0;
    worker_pool threads;  // last: its threads end before what they use
};

agent_strands::agent_strands(std::size_t thread_count, std::size_t pending_max)
    : impl_(std::make_unique<impl>(thread_count, pending_max)) {}

agent_strands::~agent_strands() {
    drain();
    impl_->threads.join();
}

bool agent_strands::post(const agent_id& agent, std::function<void()> job) {
    impl* const state = impl_.get();
    std::lock_guard lock(state->mutex);
    if (state->pending >= state->pending_max) return false;
    const auto line =
        state->lines
            .try_emplace(agent, impl::line{asio::make_strand(state->threads.get_executor())})
            .first;
    ++line->second.pending;
    ++state->pending;
    // Posted under the mutex, so that two callers' jobs are queued in the order in which they were
    // counted.
    asio::post(line->second.order, [state, agent, job = std::move(job)]() mutable {
        state->run(agent, std::move(job));
    });
    return true;
}

std::size_t agent_strands::pending() const {
    std::lock_guard lock(impl_->mutex);
    return impl_->pending;
}

void agent_strands::drain() {
    std::unique_lock lock(impl_->mutex);
    impl_->idle.wait(lock, [this] { return impl_->pending == 0; });
}

}  // namespace semantic::storage
