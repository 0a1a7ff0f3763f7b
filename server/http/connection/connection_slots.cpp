// SPDX-License-Identifier: Apache-2.0
#include "server/http/connection/connection_slots.hpp"

#include <utility>

namespace semantic::server {

namespace {

constexpr std::size_t reserved_share =
    10;  // one slot of so many is for connections that have asked

}  // namespace

connection_slots::connection_slots(std::size_t connections_max, std::size_t tenant_max)
    : open_max_(connections_max),
      tenant_max_(tenant_max),
      silent_max_(connections_max - connections_max / reserved_share) {}

bool connection_slots::has_room() const {
    std::lock_guard lock(mutex_);
    return silent_.size() + kept_.size() < open_max_ && silent_.size() < silent_max_;
}

bool connection_slots::has_silent() const {
    std::lock_guard lock(mutex_);
    return !silent_.empty();
}

void connection_slots::keep(slots::iterator one) {
    if (!std::exchange(one->is_silent, false)) return;
    kept_.splice(kept_.end(), silent_, one);
}

void connection_slots::give_to(const std::optional<std::string>& tenant, slot& one) {
    if (one.tenant) {
        const auto found = by_tenant_.find(*one.tenant);
        if (--found->second == 0) by_tenant_.erase(found);
    }
    one.tenant = tenant;
    if (tenant) ++by_tenant_[*tenant];
}

void connection_slots::evict_oldest_silent() {
    std::function<void()> evict;
    {
        std::lock_guard lock(mutex_);
        if (silent_.empty()) return;
        slot& oldest = silent_.front();
        oldest.is_evicted = true;
        evict = std::exchange(oldest.evict, nullptr);
        // Until it is gone it is not among the silent ones, so that the next call finds another.
        keep(silent_.begin());
    }
    if (evict) evict();
}

connection_slots::holder::holder(connection_slots& owner) : all_(owner) {
    std::lock_guard lock(all_.mutex_);
    self_ = all_.silent_.emplace(all_.silent_.end());
}

connection_slots::holder::~holder() {
    std::lock_guard lock(all_.mutex_);
    all_.give_to(std::nullopt, *self_);
    (self_->is_silent ? all_.silent_ : all_.kept_).erase(self_);
}

void connection_slots::holder::on_eviction(std::function<void()> evict) {
    {
        std::lock_guard lock(all_.mutex_);
        if (!self_->is_evicted) {
            self_->evict = std::move(evict);
            return;
        }
    }
    evict();
}

bool connection_slots::holder::has_asked(const std::string& tenant) {
    std::lock_guard lock(all_.mutex_);
    if (self_->tenant != tenant) {
        const auto found = all_.by_tenant_.find(tenant);
        if (found != all_.by_tenant_.end() && found->second >= all_.tenant_max_) return false;
        all_.give_to(tenant, *self_);
    }
    all_.keep(self_);
    return true;
}

}  // namespace semantic::server
