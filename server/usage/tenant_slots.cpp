// SPDX-License-Identifier: Apache-2.0
#include "server/usage/tenant_slots.hpp"

#include <algorithm>
#include <utility>

namespace semantic::server {

/// Requires: the mutex.
bool tenant_slots::has_room_for(const std::string& tenant) const {
    const auto found = by_tenant_.find(tenant);
    return counted_ < all_max_ && (found == by_tenant_.end() || found->second < tenant_max_);
}

/// Requires: the mutex.
void tenant_slots::uncount(entry& one) {
    if (!std::exchange(one.is_counted, false)) return;
    --counted_;
    const auto found = by_tenant_.find(one.tenant);
    if (--found->second == 0) by_tenant_.erase(found);
}

/// Frees the oldest evictable slot whose end gives the tenant room. Returns: a function that
/// asks its client to leave; empty where there is none. Requires: the mutex.
std::function<void()> tenant_slots::evict_for(const std::string& tenant) {
    const auto own = by_tenant_.find(tenant);
    const bool has_share = own != by_tenant_.end() && own->second >= tenant_max_;
    const auto oldest = std::ranges::find_if(entries_, [&](const entry& each) {
        return each.is_counted && each.evict && (!has_share || each.tenant == tenant);
    });
    if (oldest == entries_.end()) return {};
    uncount(*oldest);
    return std::exchange(oldest->evict, nullptr);
}

std::unique_ptr<tenant_slots::slot> tenant_slots::take(const std::string& tenant,
                                                       std::function<void()> evict) {
    std::function<void()> evict_other;
    std::unique_ptr<slot> taken;
    {
        std::lock_guard lock(mutex_);
        if (!has_room_for(tenant)) evict_other = evict_for(tenant);
        if (!has_room_for(tenant)) return nullptr;
        const auto self = entries_.insert(entries_.end(), {tenant, std::move(evict)});
        ++by_tenant_[tenant];
        ++counted_;
        taken.reset(new slot(*this, self));
    }
    if (evict_other) evict_other();
    return taken;
}

void tenant_slots::leave(entries::iterator self) {
    std::lock_guard lock(mutex_);
    uncount(*self);
    entries_.erase(self);
}

std::size_t tenant_slots::count() const {
    std::lock_guard lock(mutex_);
    return counted_;
}

}  // namespace semantic::server
