// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler/queue/wait_queue.hpp"

#include <algorithm>
#include <utility>

namespace semantic::engine {

namespace {

/// Returns: a copy of `state` without blocks; null if `state` has none.
std::shared_ptr<const storage::agent_state> without_blocks(const storage::agent_state& state) {
    std::vector<storage::kv_block_parts> none(state.blocks.size());
    if (state.blocks == none) return nullptr;
    auto bare = std::make_shared<storage::agent_state>(state);
    bare->blocks = std::move(none);
    return bare;
}

}  // namespace

void wait_queue::push(job_ptr work) {
    const storage::tenant_id& tenant = work->request.tenant;
    if (std::ranges::find(tenants_, tenant) == tenants_.end()) tenants_.push_back(tenant);
    waiting_.push_back(std::move(work));
    probe_.waiting.fetch_add(1, std::memory_order_relaxed);
}

job_ptr wait_queue::find_next(const std::function<bool(const job&)>& may_begin) const {
    for (const storage::tenant_id& tenant : tenants_)
        for (const job_ptr& work : waiting_)
            if (work->request.tenant == tenant && may_begin(*work)) return work;
    return nullptr;
}

void wait_queue::take(const job_ptr& work) {
    const storage::tenant_id tenant = work->request.tenant;
    waiting_.erase(std::ranges::find(waiting_, work));
    probe_.waiting.fetch_sub(1, std::memory_order_relaxed);
    tenants_.erase(std::ranges::find(tenants_, tenant));
    tenants_.push_back(tenant);
    forget_idle_tenants();
}

void wait_queue::forget_idle_tenants() {
    std::erase_if(tenants_, [&](const storage::tenant_id& tenant) {
        return std::ranges::none_of(
            waiting_, [&](const job_ptr& work) { return work->request.tenant == tenant; });
    });
}

int wait_queue::count_before(const job& work) const {
    int own = 0;  // before it, of its tenant
    for (const job_ptr& each : waiting_) {
        if (each.get() == &work) break;
        own += each->request.tenant == work.request.tenant ? 1 : 0;
    }
    int before = own;
    // From the last tenant in turn to the first: those that come before the request's own tenant
    // begin one request more.
    bool is_behind = false;
    for (auto tenant = tenants_.rbegin(); tenant != tenants_.rend(); ++tenant) {
        if (*tenant == work.request.tenant) {
            is_behind = true;
            continue;
        }
        const auto count = std::ranges::count_if(
            waiting_, [&](const job_ptr& each) { return each->request.tenant == *tenant; });
        before += std::min(static_cast<int>(count), own + (is_behind ? 1 : 0));
    }
    return before;
}

std::vector<job_ptr> wait_queue::take_cancelled() {
    std::vector<job_ptr> left;
    std::erase_if(waiting_, [&](const job_ptr& work) {
        if (!work->is_cancelled()) return false;
        work->prompt->source.reset();
        probe_.waiting.fetch_sub(1, std::memory_order_relaxed);
        left.push_back(work);
        return true;
    });
    if (!left.empty()) forget_idle_tenants();
    return left;
}

template <typename WithoutSome>
bool wait_queue::release(const job* spared, WithoutSome without_some) {
    bool any = false;
    for (const job_ptr& work : waiting_) {
        auto& source = work->prompt->source;
        if (work.get() == spared || !source) continue;
        auto bare = without_some(*source);
        if (!bare) continue;
        source = std::move(bare);
        any = true;
    }
    return any;
}

bool wait_queue::release_saved_blocks(const job* spared) {
    return release(spared, [&](const auto& state) { return store_.without_saved(state); });
}

bool wait_queue::release_blocks(const job* spared) { return release(spared, without_blocks); }

}  // namespace semantic::engine
