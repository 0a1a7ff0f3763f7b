// SPDX-License-Identifier: Apache-2.0
#pragma once
// Gathers what happens for a while, and sends all watchers what has changed. What several
// see in the same way is made once. While nobody watches it does nothing, and neither does the
// engine for it.
// Owner: app. Thread: any; subscribe() one that may be held for a while. Nothing waits here but for
// its lock, and the engine never does.

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "engine/types/activity_feed.hpp"
#include "server/handlers/live/viewer.hpp"
#include "storage/types/subscription.hpp"

namespace semantic::server {

class live_hub {
  public:
    /// The time between two messages to everybody. It grows with the number of watchers, so that
    /// all of them together get at most messages_a_second_max.
    static constexpr std::chrono::milliseconds period_min{500};
    static constexpr std::size_t messages_a_second_max = 50;
    static constexpr std::chrono::milliseconds period_for(std::size_t watchers) {
        using std::chrono::milliseconds;
        const milliseconds shared(1000 * watchers / messages_a_second_max);
        return shared < period_min ? period_min : shared;
    }
    static constexpr std::size_t recent_max = 100;  // events in a snapshot

    using message = std::shared_ptr<const std::string>;
    /// Takes one message; null: the server stops. Called from any thread; must not block.
    using receiver = std::function<void(message)>;

    /// Ends with this object.
    using subscription = storage::subscription<live_hub>;

    /// `workers`: where agents are read, which takes time in proportion to their number.
    live_hub(boost::asio::any_io_executor executor, std::shared_ptr<engine::activity_feed> feed,
             boost::asio::any_io_executor workers);
    ~live_hub();
    live_hub(const live_hub&) = delete;
    live_hub& operator=(const live_hub&) = delete;

    /// Calls `to` with a snapshot before it returns, and with changes from then on. `server`
    /// outlives the hub's use. Takes time in proportion to the number of agents that the viewer
    /// sees.
    subscription subscribe(const services& server, viewer viewer, receiver to);
    /// Notifies all watchers that the server stops. Nothing is sent after that.
    void stop();

  private:
    friend storage::subscription<live_hub>;
    using clock = std::chrono::steady_clock;
    /// What one kind of viewer sees: all receivers with equal `viewer` share it.
    struct view {
        protocol::live::shown_state state{};
        protocol::live::event_list recent{};
        std::uint64_t seq = 0;
        message snapshot;      // of this seq; null: to be made
        bool is_stale = true;  // agents, sessions and runs must be read again
        clock::time_point looked{};
        std::map<std::uint64_t, receiver> receivers{};
    };
    /// What all views show alike at one moment.
    struct moment {
        engine_lease engine;
        std::string model;
        std::string nodes;
        std::string gauges;
        engine::activity_feed::batch events;
    };

    /// Removes a receiver later, on a worker, because the lock is held while agents are read.
    void leave(std::uint64_t id);
    /// Removes a receiver; the last one stops the engine's feed.
    void remove(std::uint64_t id);
    /// The number of all receivers. Requires: the mutex is held.
    std::size_t watchers() const;
    /// Starts the timer for the next tick(), where there are watchers. Requires: the mutex is held.
    void wait();
    /// Sends every receiver what has changed.
    void tick();
    /// Reads what all views show alike. `events`: what happened since the last time. Requires: the
    /// mutex is held.
    moment look(const services& server, engine::activity_feed::batch events);
    /// Brings a view up to `now`, and adds its change message to `out` for each of its receivers.
    /// Requires: the mutex is held.
    void update(const services& server, const viewer& viewer, view& watched, const moment& now,
                std::vector<std::pair<receiver, message>>& out);

    std::shared_ptr<engine::activity_feed> feed_;
    const boost::asio::any_io_executor workers_;
    boost::asio::steady_timer timer_;  // guarded by mutex_, as is all below
    mutable std::mutex mutex_;
    const services* server_ = nullptr;
    std::map<viewer, view> views_;
    std::uint64_t next_id_ = 1;
    bool is_waiting_ = false;
    bool stopped_ = false;
    protocol::live::pool_gauges pool_;
    clock::time_point pool_looked_{};
};

}  // namespace semantic::server
