// SPDX-License-Identifier: Apache-2.0
#pragma once
// The slots for open connections, and which connection is evicted when none is left: one that has
// not sent a request yet, the oldest first. So silent connections, however many, keep no client
// out. Where there are keys, only a request with one counts, and no key has more than its share of
// the slots. Owner: the listener. Thread: any.

#include <cstddef>
#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <string>

namespace semantic::server {

class connection_slots {
    struct slot {
        std::function<void()> evict;  // empty until the connection can be notified
        bool is_silent = true;        // has sent no request, and was not asked to leave
        bool is_evicted = false;
        std::optional<std::string> tenant;  // who asked last
    };
    using slots = std::list<slot>;

  public:
    /// `tenant_max`: how many of the slots one tenant may have.
    connection_slots(std::size_t connections_max, std::size_t tenant_max);
    connection_slots(const connection_slots&) = delete;
    connection_slots& operator=(const connection_slots&) = delete;

    /// The slot that one connection holds of `owner`, which outlives it. Owner: the session.
    class holder {
      public:
        explicit holder(connection_slots& owner);
        ~holder();
        holder(const holder&) = delete;
        holder& operator=(const holder&) = delete;

        /// Sets how the connection is asked to leave. `evict` is called once at most, on any
        /// thread, and within this call where that was decided already. It must not block.
        void on_eviction(std::function<void()> evict);
        /// Notes a request of the tenant: from now on the slot is the tenant's and is not evicted.
        /// Returns: false where the tenant has its share of the slots already.
        bool has_asked(const std::string& tenant);

      private:
        connection_slots& all_;
        slots::iterator self_;
    };

    /// Whether one more connection may come. One slot in ten is reserved for connections that have
    /// sent a request.
    bool has_room() const;
    /// Whether there is a connection that could be evicted.
    bool has_silent() const;
    /// Asks the oldest connection that has sent no request to leave, if there is one.
    void evict_oldest_silent();

  private:
    /// Moves a slot out of those that can be evicted. Requires: the mutex is held.
    void keep(slots::iterator one);

    /// Counts the slot for `tenant` (nothing: for none) from now on. Requires: the mutex is held.
    void give_to(const std::optional<std::string>& tenant, slot& one);

    const std::size_t open_max_;
    const std::size_t tenant_max_;
    const std::size_t silent_max_;
    mutable std::mutex mutex_;
    slots silent_;  // have sent no request; the oldest first
    slots kept_;    // have sent one, or were asked to leave
    std::map<std::string, std::size_t> by_tenant_;
};

}  // namespace semantic::server
