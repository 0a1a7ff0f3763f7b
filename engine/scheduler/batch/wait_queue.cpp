#include "engine/scheduler/batch/wait_queue.hpp"

#include <utility>

namespace semantic::engine {

namespace {

/// Returns: null where it has no block.
std::shared_ptr<const storage::agent_state> without_blocks(const storage::agent_state& state) {
    std::vector<storage::kv_block_parts> none(state.blocks.size());
    if (state.blocks == none) return nullptr;
    auto bare = std::make_shared<storage::agent_state>(state);
    bare->blocks = std::move(none);
    return bare;
}

}  // namespace

void wait_queue::push(job_ptr work) {
    waiting_.push_back(std::move(work));
    probe_.waiting.fetch_add(1, std::memory_order_relaxed);
}

void wait_queue::pop_front() {
    waiting_.pop_front();
    probe_.waiting.fetch_sub(1, std::memory_order_relaxed);
}

std::vector<wait_queue::stopped> wait_queue::take_stopped() {
    std::vector<stopped> left;
    std::erase_if(waiting_, [&](const job_ptr& work) {
        auto why = work->wants_to_stop();
        if (!why) return false;
        work->prompt->source.reset();
        probe_.waiting.fetch_sub(1, std::memory_order_relaxed);
        left.push_back({work, *why});
        return true;
    });
    return left;
}

/// `released(state)`: the state with fewer blocks; null when it has none to spare.
template <typename Released>
bool wait_queue::release(std::size_t from, Released released) {
    bool any = false;
    for (std::size_t i = from; i < waiting_.size(); ++i) {
        auto& source = waiting_[i]->prompt->source;
        auto bare = source ? released(*source) : nullptr;
        if (!bare) continue;
        source = std::move(bare);
        any = true;
    }
    return any;
}

bool wait_queue::release_saved_blocks(std::size_t from) {
    return release(from, [&](const auto& state) { return store_.without_saved(state); });
}

bool wait_queue::release_blocks(std::size_t from) { return release(from, without_blocks); }

}  // namespace semantic::engine
