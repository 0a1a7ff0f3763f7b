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
    /// Between two messages to everybody. To few it is what people do not notice; to many it grows
    /// with their number, so that the messages to all of them together are bounded.
    static constexpr std::chrono::milliseconds period_min{500};
    static constexpr std::size_t messages_a_second_max = 50;
    static constexpr std::chrono::milliseconds period_for(std::size_t watchers) {
        using std::chrono::milliseconds;
        const milliseconds shared(1000 * watchers / messages_a_second_max);
        return shared < period_min ? period_min : shared;
    }
    static constexpr std::size_t recent_max = 100;  // events in a snapshot

    using message = std::shared_ptr<const std::string>;
    /// Takes one message; null when the server stops. Called from any thread; must not wait.
    using receiver = std::function<void(message)>;

    /// Ends with this.
    using subscription = storage::subscription<live_hub>;

    /// `workers`: where all agents are looked at, which takes as long as there are many.
    live_hub(boost::asio::any_io_executor executor, std::shared_ptr<engine::activity_feed> feed,
             boost::asio::any_io_executor workers);
    ~live_hub();
    live_hub(const live_hub&) = delete;
    live_hub& operator=(const live_hub&) = delete;

    /// A snapshot comes before this returns, then what changes. `server` outlives the hub's use.
    /// Takes as long as the viewer sees many agents.
    subscription subscribe(const services& server, viewer viewer, receiver to);
    /// Notifies all watchers that the server stops. Nothing is sent after that.
    void stop();

  private:
    friend storage::subscription<live_hub>;
    using clock = std::chrono::steady_clock;
    /// What all see who are the same viewer.
    struct view {
        protocol::live::shown_state state{};
        protocol::live::event_list recent{};
        std::uint64_t seq = 0;
        message snapshot;      // of this seq, once somebody has asked for it
        bool is_stale = true;  // agents, sessions and runs are to be looked at again
        clock::time_point looked{};
        std::map<std::uint64_t, receiver> receivers{};
    };
    /// What is the same for all views of one moment.
    struct moment {
        engine_lease engine;
        std::string model;
        std::string nodes;
        std::string gauges;
        engine::activity_feed::batch told;
    };

    /// Later, on a worker: the lock is held while agents are read.
    void leave(std::uint64_t id);
    void remove(std::uint64_t id);
    std::size_t watchers() const;
    void wait();
    void tick();
    moment look(const services& server, engine::activity_feed::batch told);
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
