// SPDX-License-Identifier: Apache-2.0
#pragma once
// The queue of requests whose model is not loaded. Changes the models for them: time_slices chooses
// the model, slot_choice the slot. Exists only with auto-swap. Owner: app. Thread: any; a thread of
// its own looks at the queue while a request is in it.

#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "protocol/wire/errc.hpp"
#include "server/engines/engine_slots.hpp"
#include "server/models/model_switches.hpp"
#include "server/models/slot_choice.hpp"
#include "server/models/time_slices.hpp"
#include "server/runtime/metrics.hpp"

namespace semantic::server {

struct queue_options {
    std::chrono::milliseconds slice{30'000};
    std::chrono::milliseconds wait{300'000};  // how long a request waits at most
    std::chrono::milliseconds idle_max{0};    // an idle model is unloaded after this time; 0: never
    std::size_t waiting_max = 256;
    /// How long a model that could not be loaded is not tried again.
    std::chrono::milliseconds rest{30'000};
    std::size_t start = 0;  // the model of requests that name none, before any was loaded
    std::function<std::string(std::size_t)> name_of;
    /// Why a model certainly cannot be loaded in that slot; empty: it may. Blocks.
    std::function<std::string(std::size_t model, std::size_t slot)> fault_of;
};

/// How to ask about the client that waits. Both are called on its strand.
struct waiting_client {
    std::function<bool()> is_gone;
    /// Sets what is called when the client leaves; an empty function: nothing.
    std::function<void(std::function<void()>)> when_gone;
};

class model_queue {
  public:
    model_queue(engine_slots& slots, model_switches& switcher, server_probe& probe,
                queue_options options);
    ~model_queue();
    model_queue(const model_queue&) = delete;
    model_queue& operator=(const model_queue&) = delete;

    /// Waits for an engine of `model` (nothing: the usual one); requests are served in their order.
    /// Returns: an empty lease when the client has left. Errors: overloaded, when the queue is
    /// full, the wait too long or the model cannot be loaded now; shutting_down.
    boost::asio::awaitable<protocol::result<engine_lease>> lease(std::optional<std::size_t> model,
                                                                 waiting_client client);
    /// The model that requests without a name mean: the one in the usual slot, or the last one
    /// there.
    std::size_t usual_model() const;
    /// Refuses all waiting requests and later ones, and ends the thread.
    void close();

  private:
    struct waiter;
    using line = std::list<std::shared_ptr<waiter>>;

    /// What is known of a slot in addition to its state.
    struct watch {
        std::optional<std::size_t> asked{};  // the model of the change that this queue began here
        std::chrono::steady_clock::time_point ready_since{};
        std::optional<std::chrono::steady_clock::time_point> change_begun{};
        bool was_settled = false;
    };
    struct change_wish {
        std::size_t slot;
        slice_decision decision;
    };

    /// The thread: looks at the queue and changes models until close().
    void work();
    /// Looks at slots and queue once: serves the requests that can be served. Returns: the change
    /// of models to make, if any.
    std::optional<change_wish> look();
    /// Looks at a slot whose model is ready: serves requests for it, and decides whether it goes on
    /// or another model comes. `waiting`: the models that may take its place. `was_changing`: its
    /// model has just been loaded.
    slice_decision look_at_ready(std::size_t slot, const slot_state& now, bool was_changing,
                                 std::span<const waiting_model> waiting);
    /// Notes when a slot's change began and ended.
    void notice(watch& watched, const slot_state& now);
    /// Notes the outcome of a change that is over: how long it took, and why it failed.
    void notice_settled(watch& watched, const slot_state& now);
    /// The slot for the next waiting model; nothing: none may change now.
    std::optional<std::size_t> slot_for(const std::vector<slot_state>& now) const;
    /// Begins a change of models. Releases `lock` while files are read.
    void change(std::unique_lock<std::mutex>& lock, const change_wish& wanted);
    /// Whether a model that does not fit in addition to the others may replace one of them.
    bool gives_way_to_others(std::size_t slot) const;
    /// The models that requests wait for and that are not ready, in the order of their oldest
    /// requests.
    std::vector<waiting_model> waiting_models(const std::vector<slot_state>& now) const;
    /// Gives the engine in a slot to all requests that wait for its model.
    void serve(std::size_t slot, const slot_state& now);
    /// Fails all requests for a model that could not be loaded; it is not tried again for
    /// options_.rest.
    void fail_all_of(std::size_t model, const std::string& why);
    /// Ends the wait of one request with this outcome.
    void answer(const std::shared_ptr<waiter>& one, protocol::result<engine_lease> outcome);
    /// Why a request for the model cannot wait; nothing: it can.
    std::optional<protocol::failure> refusal(std::optional<std::size_t> model) const;
    /// The error for a request that has waited too long.
    protocol::failure too_long(const waiter& one) const;
    /// The error for a request that finds the queue full.
    protocol::failure too_many() const;

    engine_slots& slots_;
    model_switches& switcher_;
    server_probe& probe_;
    const queue_options options_;
    mutable std::mutex mutex_;
    std::condition_variable changed_;
    bool closed_ = false;  // guarded by mutex_, as is all below
    line line_;
    std::size_t usual_;
    std::vector<watch> watches_;           // of each slot
    bool is_crowded_ = false;              // the memory has no room for one more model
    std::chrono::milliseconds linger_{0};  // see slice_rules: what the last change took
    struct load_fault {
        std::string why;
        std::chrono::steady_clock::time_point until;
    };
    std::map<std::size_t, load_fault> faults_;
    std::thread thread_;
};

}  // namespace semantic::server
