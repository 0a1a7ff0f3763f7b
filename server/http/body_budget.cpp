// SPDX-License-Identifier: Apache-2.0
#include "server/http/body_budget.hpp"

#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>

#include <algorithm>
#include <utility>

#include "server/runtime/tokens.hpp"

namespace semantic::server {

bool body_budget::fits(const share& one) const {
    // The first body always gets its bytes, so that at least one goes on.
    if (queue_.front() == &one) return true;
    if (held_ - one.held_ + one.wanted_ > bytes_max_) return false;
    if (tenant_max_ >= bytes_max_) return true;  // tenants are not distinguished
    // A tenant's first body never waits for others of that tenant, so that they do not wait for
    // each other. The others leave a third of the tenant's share to it from the beginning.
    const share& first = **std::ranges::find(queue_, one.tenant_, &share::tenant_);
    if (&first == &one) return true;
    const auto own = by_tenant_.find(one.tenant_);
    const std::size_t held = own == by_tenant_.end() ? 0 : own->second.held;
    const std::size_t others = held - one.held_ - first.held_;
    // Bodies ask for up to each_free_ more than they get.
    const std::size_t most = tenant_max_ - std::min(tenant_max_, each_free_);
    return others + one.wanted_ + std::max(first.held_, tenant_max_ / 3) <= most;
}

void body_budget::count(const share& one, std::ptrdiff_t held, std::ptrdiff_t aside) {
    const auto own = by_tenant_.try_emplace(one.tenant_).first;
    for (std::size_t* each : {&held_, &own->second.held}) *each += static_cast<std::size_t>(held);
    for (std::size_t* each : {&aside_, &own->second.aside})
        *each += static_cast<std::size_t>(aside);
    if (own->second.held == 0) by_tenant_.erase(own);
}

bool body_budget::give(share& one) {
    if (!fits(one)) return false;
    count(one, static_cast<std::ptrdiff_t>(one.wanted_ - one.held_), 0);
    one.held_ = std::exchange(one.wanted_, 0);
    return true;
}

bool body_budget::ask(share& one, std::size_t bytes, std::shared_ptr<net::steady_timer> timer) {
    std::lock_guard lock(mutex_);
    if (!one.is_queued_) {
        one.position_ = queue_.insert(queue_.end(), &one);
        one.is_queued_ = true;
    }
    one.wanted_ = bytes;
    one.timer_ = std::move(timer);
    return give(one);
}

bool body_budget::end_wait(share& one) {
    std::lock_guard lock(mutex_);
    return std::exchange(one.wanted_, 0) == 0;
}

net::awaitable<bool> body_budget::share::grow_to(std::size_t bytes,
                                                 std::chrono::steady_clock::time_point until) {
    if (bytes <= all_.each_free_ || bytes <= held_) co_return true;
    net::any_io_executor executor = co_await net::this_coro::executor;
    auto timer = std::make_shared<net::steady_timer>(executor, until);
    if (all_.ask(*this, bytes, timer)) co_return true;
    [[maybe_unused]] auto [error] = co_await timer->async_wait(use_tuple);
    co_return all_.end_wait(*this);
}

bool body_budget::share::set_aside() {
    if (!is_queued_) return true;
    std::lock_guard lock(all_.mutex_);
    const auto own = all_.by_tenant_.find(tenant_);
    const std::size_t others = own == all_.by_tenant_.end() ? 0 : own->second.aside;
    if (all_.aside_ + held_ > all_.bytes_max_ / 2 || others + held_ > all_.tenant_max_ / 2)
        return false;
    all_.count(*this, 0, static_cast<std::ptrdiff_t>(held_));
    all_.queue_.erase(position_);
    is_queued_ = false;
    is_aside_ = true;
    all_.give_all();
    return true;
}

void body_budget::share::free() {
    if (!is_queued_ && !is_aside_) return;
    std::lock_guard lock(all_.mutex_);
    if (is_queued_) all_.queue_.erase(position_);
    const auto held = static_cast<std::ptrdiff_t>(std::exchange(held_, 0));
    all_.count(*this, -held, is_aside_ ? -held : 0);
    is_queued_ = is_aside_ = false;
    all_.give_all();
}

void body_budget::give_all() {
    for (share* one : queue_) {
        if (one->wanted_ == 0 || !give(*one)) continue;
        // On the timer's strand, so that its wait has begun when this cancels it.
        net::post(one->timer_->get_executor(), [timer = one->timer_] { timer->cancel(); });
    }
}

}  // namespace semantic::server
