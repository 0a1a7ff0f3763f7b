// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where requests wait for their model while another one is loaded. Changes the models for them:
// time_slices chooses the model, slot_choice the slot. Without it a request has a model that is
// loaded, or none.
// Owner: app. Thread: any; a thread of its own looks at the queue while a request is in it.

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
    std::chrono::milliseconds wait{300'000};  // of a request at most
    std::chrono::milliseconds idle_max{0};    // 0: a model is never unloaded for want of requests
    std::size_t waiting_max = 256;
    /// A model that could not be loaded is not tried again for so long.
    std::chrono::milliseconds rest{30'000};
    std::size_t start = 0;  // the model that requests without one mean before any was loaded
    std::function<std::string(std::size_t)> name_of;
    /// Blocks. Why a model certainly cannot be loaded in that slot; empty: it may.
    std::function<std::string(std::size_t model, std::size_t slot)> fault_of;
};

/// The client that waits. Both are called on the strand where it does.
struct waiting_client {
    std::function<bool()> is_gone;
    /// Calls what it gets when the client leaves; an empty one takes that back.
    std::function<void(std::function<void()>)> when_gone;
};

class model_queue {
  public:
    model_queue(engine_slots& slots, model_switches& switcher, server_probe& probe,
                queue_options options);
    ~model_queue();
    model_queue(const model_queue&) = delete;
    model_queue& operator=(const model_queue&) = delete;

    /// Waits for an engine of `model`, or of the usual one, in the order of asking. Returns
    /// an empty lease when the client has left. Errors: overloaded, when the line is full, the wait
    /// too long or the model cannot be loaded now; shutting_down.
    boost::asio::awaitable<protocol::result<engine_lease>> lease(std::optional<std::size_t> model,
                                                                 waiting_client client);
    /// The model in the usual slot, or the one that was last: what requests mean that name none.
    std::size_t usual_model() const;
    /// No request gets an engine any more, and waiting ones are notified. Ends the thread.
    void close();

  private:
    struct waiter;
    using line = std::list<std::shared_ptr<waiter>>;

    /// What is known of a slot in addition to its state.
    struct watch {
        std::optional<std::size_t> asked{};  // the change that this has asked for last
        std::chrono::steady_clock::time_point ready_since{};
        std::optional<std::chrono::steady_clock::time_point> change_begun{};
        bool was_settled = false;
    };
    struct change_wish {
        std::size_t slot;
        slice_decision decision;
    };

    void work();
    /// One look: serves whom it can, and says what is to be changed.
    std::optional<change_wish> look();
    slice_decision look_at_ready(std::size_t slot, const slot_state& now, bool was_changing,
                                 std::span<const waiting_model> waiting);
    void notice(watch& watched, const slot_state& now);
    void notice_settled(watch& watched, const slot_state& now);
    std::optional<std::size_t> slot_for(const std::vector<slot_state>& now) const;
    void change(std::unique_lock<std::mutex>& lock, const change_wish& wanted);
    bool gives_way_to_others(std::size_t slot) const;
    std::vector<waiting_model> waiting_models(const std::vector<slot_state>& now) const;
    void serve(std::size_t slot, const slot_state& now);
    void fail_all_of(std::size_t model, const std::string& why);
    void answer(const std::shared_ptr<waiter>& one, protocol::result<engine_lease> outcome);
    std::optional<protocol::failure> refusal(std::optional<std::size_t> model) const;
    protocol::failure too_long(const waiter& one) const;
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
    std::vector<watch> watches_;  // of each slot
    bool is_crowded_ = false;     // there is no memory for one more model
    std::chrono::milliseconds linger_{0};
    struct load_fault {
        std::string why;
        std::chrono::steady_clock::time_point until;
    };
    std::map<std::size_t, load_fault> faults_;
    std::thread thread_;
};

}  // namespace semantic::server
