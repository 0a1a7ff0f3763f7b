// SPDX-License-Identifier: Apache-2.0
#pragma once
// Slots that all clients share and of which no tenant may have all: WebSockets, uploads. A slot may
// be evictable (that of a client without a key): the oldest of these is evicted for a new client.
// Owner: app. Thread: any.

#include <cstddef>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace semantic::server {

/// How many of `all` slots one tenant may have, where keys distinguish tenants.
constexpr std::size_t tenant_share(std::size_t all) { return all - all / 4; }

class tenant_slots {
    struct entry {
        std::string tenant;
        std::function<void()> evict;  // empty: stays
        bool is_counted = true;       // false once it was asked to leave
    };
    using entries = std::list<entry>;

  public:
    tenant_slots(std::size_t all_max, std::size_t tenant_max)
        : all_max_(all_max), tenant_max_(tenant_max) {}
    tenant_slots(const tenant_slots&) = delete;
    tenant_slots& operator=(const tenant_slots&) = delete;

    /// One slot, given back when this ends. `slots` outlives it.
    class slot {
      public:
        ~slot() { slots_.leave(self_); }
        slot(const slot&) = delete;
        slot& operator=(const slot&) = delete;

      private:
        friend tenant_slots;
        slot(tenant_slots& slots, entries::iterator self) : slots_(slots), self_(self) {}
        tenant_slots& slots_;
        const entries::iterator self_;
    };

    /// Takes a slot for the tenant, if need be by evicting another one. `evict`: makes the new slot
    /// evictable; called once at most, on any thread; must not block. Returns: null where the
    /// tenant has its share, or all are taken, and none is evictable.
    std::unique_ptr<slot> take(const std::string& tenant, std::function<void()> evict = {});
    std::size_t count() const;

  private:
    void leave(entries::iterator self);
    bool has_room_for(const std::string& tenant) const;
    std::function<void()> evict_for(const std::string& tenant);
    /// Takes the slot out of the counts, unless that was done. Requires: the mutex is held.
    void uncount(entry& one);

    const std::size_t all_max_;
    const std::size_t tenant_max_;
    mutable std::mutex mutex_;  // guards what follows
    entries entries_;           // the oldest first
    std::map<std::string, std::size_t> by_tenant_;
    std::size_t counted_ = 0;
};

}  // namespace semantic::server
