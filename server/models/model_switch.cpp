// SPDX-License-Identifier: Apache-2.0
#include "server/models/model_switch.hpp"

#include <condition_variable>
#include <optional>
#include <random>
#include <utility>
#include <variant>

#include "server/runtime/memory.hpp"
#include "server/runtime/start_failure.hpp"
#include "storage/types/hex.hpp"

namespace semantic::server {

namespace {

using clock = std::chrono::steady_clock;
using protocol::errc;

/// Notes how a request ended, for a thread that waits for it.
class end_of_answer final : public engine::generation_sink {
  public:
    void on_event(engine::generation_event event) noexcept override {
        std::lock_guard lock(mutex_);
        if (const auto* end = std::get_if<engine::finished>(&event)) {
            const bool is_cut = end->why == engine::stop_reason::cancelled ||
                                end->why == engine::stop_reason::deadline;
            if (is_cut) why_ = std::string("its first answer ended by ") + to_string(end->why);
            if (end->output_tokens < 1 && !is_cut) why_ = "its first answer has no token";
        } else if (const auto* refused = std::get_if<engine::failed>(&event)) {
            why_ = "its first answer failed: " + refused->what;
        } else {
            return;
        }
        ended_ = true;
        changed_.notify_all();
    }
    bool has_ended(clock::time_point until) {
        std::unique_lock lock(mutex_);
        return changed_.wait_until(lock, until, [this] { return ended_; });
    }
    /// Why the request did not succeed; empty: it did.
    std::string why() {
        std::lock_guard lock(mutex_);
        return why_;
    }

  private:
    std::mutex mutex_;
    std::condition_variable changed_;
    bool ended_ = false;
    std::string why_;
};

/// The test prompt for a loaded model.
engine::generation_request first_question(const storage::agent_id& agent, clock::time_point until) {
    engine::generation_request wanted;
    wanted.agent = agent;
    // Raw text: a chat template could add long system text, which would prove nothing more.
    wanted.text = "Hello";
    // The first token comes from the prompt's pass, the second from a step after it: both are
    // tried.
    wanted.max_tokens = 2;
    wanted.sampling.temperature = 0.0f;
    wanted.deadline = until;
    return wanted;
}

}  // namespace

std::string prove_by_answer(engine::engine& engine, std::chrono::milliseconds time,
                            const std::atomic<bool>& hurry) {
    constexpr std::chrono::milliseconds glance{50};
    std::random_device chance;
    const std::uint64_t number = std::uint64_t{chance()} << 32 | chance();
    const auto agent = storage::agent_id::parse("model_check_" + storage::hex_of(number));
    if (!agent) return agent.error().what;
    const clock::time_point until = clock::now() + time;
    auto sink = std::make_shared<end_of_answer>();
    const engine::request_id id = engine.submit(first_question(*agent, until), sink);
    while (!sink->has_ended(std::min(until, clock::now() + glance))) {
        if (clock::now() < until && !hurry.load()) continue;
        engine.cancel(id);
        // Waits for the cancelled request to end, whatever its outcome.
        sink->has_ended(clock::now() + time);
        return "it gave no answer in time";
    }
    std::string why = sink->why();
    if (auto erased = engine.erase(*agent);
        // not_found: the answer left no memory.
        !erased && erased.error().code != storage::errc::not_found && why.empty())
        why = "its first answer could not be forgotten: " + erased.error().what;
    return why;
}

model_switch::model_switch(engine_slot& slot, switch_options options)
    : slot_(slot), options_(std::move(options)) {}

model_switch::~model_switch() {
    close(clock::now());
    join();
}

protocol::result<std::uint64_t> model_switch::ask(std::optional<std::size_t> model,
                                                  std::chrono::milliseconds drain) {
    std::lock_guard lock(mutex_);
    if (closed_.load()) return fail(errc::shutting_down, "the server is shutting down");
    const slot_state now = slot_.state();
    if (now.phase == slot_phase::ready && now.model == model) return slot_.change();
    const bool has_none = now.phase == slot_phase::empty || now.phase == slot_phase::failed;
    if (!model && has_none) return slot_.change();
    if (!is_settled(now.phase)) {
        protocol::failure busy = fail(errc::conflict, "another model is being loaded already");
        busy.retry_after = std::chrono::seconds(5);
        return busy;
    }
    if (thread_.joinable()) thread_.join();  // of an exchange that has ended
    if (!slot_.step(slot_asked{model}))
        return fail(errc::shutting_down, "the server is shutting down");
    thread_ = std::thread([this, until = clock::now() + drain] { run(until); });
    return slot_.change();
}

slot_phase model_switch::close(clock::time_point until) {
    closed_.store(true);
    slot_.hurry(until);
    return slot_.close();
}

void model_switch::join() {
    std::lock_guard lock(mutex_);
    if (thread_.joinable()) thread_.join();
}

void model_switch::run(clock::time_point drain_until) {
    slot_state now = slot_.state();
    const bool is_start = now.is_start;
    while (!is_settled(now.phase)) {
        if (options_.on_step) options_.on_step(now);
        auto next = slot_.step(work(now, drain_until));
        if (!next) return;  // the server stops
        now = std::move(*next);
    }
    const bool is_done = now.phase != slot_phase::failed && now.why.empty();
    // The load at the start of the server is no exchange.
    if (!is_start) (is_done ? done_ : failed_) += 1;
    if (options_.on_step) options_.on_step(now);
    if (options_.on_settled) options_.on_settled(now);
}

slot_event model_switch::work(const slot_state& now, clock::time_point drain_until) try {
    switch (now.phase) {
        case slot_phase::loading:
            return load(now);
        case slot_phase::verifying:
            return verify();
        case slot_phase::draining:
            return drain(drain_until);
        case slot_phase::saving:
            return save();
        case slot_phase::releasing:
            return release();
        case slot_phase::idle:
        case slot_phase::ready:
        case slot_phase::failed:
        case slot_phase::empty:
            break;
    }
    return slot_broke{"nothing to do"};
} catch (const std::exception& error) {
    return slot_broke{start_failure(error)};
}

slot_event model_switch::load(const slot_state& now) {
    auto loaded = options_.load(now.model.value(), [this](engine::load_progress progress) {
        slot_.report(std::move(progress));
    });
    if (!loaded) return slot_broke{loaded.error().what};
    slot_.put(std::move(*loaded));
    return slot_done{};
}

slot_event model_switch::verify() {
    std::string why = prove_by_answer(*slot_.own(), options_.answer_time, closed_);
    trim_memory();  // of what reading the files has left free
    if (!why.empty()) return slot_broke{slot_.own()->info().id + ": " + why};
    return slot_done{};
}

/// Waits until no request runs. Done also when `until` has passed: save() cancels what still runs.
slot_event model_switch::drain(clock::time_point until) {
    slot_.wait_for_leases(until);
    return slot_done{};
}

/// Cancels what still runs, and saves all agents. Fails when some could not be saved; the engine
/// then goes on.
slot_event model_switch::save() {
    engine::engine& engine = *slot_.own();
    engine.drain(clock::now());
    const std::uint64_t left = engine.pool().agents_dirty;
    if (left == 0) return slot_done{};
    engine.resume();
    return slot_broke{std::to_string(left) + " agents could not be saved: the log says why; " +
                      engine.info().id + " goes on"};
}

/// Takes the engine out once no lease is left. Clients that do not end in time are cut. Fails when
/// leases remain even then; the engine then goes on.
slot_event model_switch::release() {
    bool is_free = slot_.wait_for_leases(clock::now() + options_.farewell);
    if (!is_free) {
        slot_.cut_leases();
        is_free = slot_.wait_for_leases(clock::now() + options_.patience);
    }
    if (!is_free) {
        engine::engine& engine = *slot_.own();
        engine.resume();
        return slot_broke{std::to_string(slot_.leases()) + " requests did not end; " +
                          engine.info().id + " goes on"};
    }
    slot_.take().reset();
    trim_memory();
    return slot_done{};
}

}  // namespace semantic::server
