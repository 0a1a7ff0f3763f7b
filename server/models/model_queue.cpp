#include "server/models/model_queue.hpp"

#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>

#include <algorithm>
#include <utility>

#include "server/runtime/tokens.hpp"

namespace semantic::server {

namespace {

using clock = std::chrono::steady_clock;
using protocol::errc;

constexpr std::chrono::milliseconds glance{5};         // while somebody waits
constexpr std::chrono::milliseconds idle_glance{200};  // while a model may be unloaded

protocol::failure shutting_down() {
    return fail(errc::shutting_down, "the server is shutting down");
}

}  // namespace

struct model_queue::waiter {
    std::optional<std::size_t> model;
    clock::time_point since;
    std::shared_ptr<net::steady_timer> timer;
    std::optional<protocol::result<engine_lease>> outcome;  // guarded by the queue's mutex
};

model_queue::model_queue(engine_slot& slot, model_switch& switcher, server_probe& probe,
                         queue_options options)
    : slot_(slot),
      switcher_(switcher),
      probe_(probe),
      options_(std::move(options)),
      usual_(options_.start),
      thread_([this] { work(); }) {}

model_queue::~model_queue() { close(); }

void model_queue::close() {
    {
        std::lock_guard lock(mutex_);
        closed_ = true;
        for (const auto& each : line(line_)) answer(each, shutting_down());
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
}

std::size_t model_queue::usual_model() const {
    std::lock_guard lock(mutex_);
    return usual_;
}

protocol::failure model_queue::too_many() const {
    protocol::failure full =
        fail(errc::overloaded, std::to_string(line_.size()) + " requests wait for a model already");
    full.retry_after = std::chrono::seconds(5);
    return full;
}

protocol::failure model_queue::too_long(const waiter& one) const {
    const std::string name = one.model ? options_.name_of(*one.model) : std::string("a model");
    const auto waited = std::chrono::duration_cast<std::chrono::seconds>(options_.wait);
    protocol::failure late =
        fail(errc::overloaded, name + " was not loaded within " + std::to_string(waited.count()) +
                                   " s, since others are asked for");
    late.retry_after = std::chrono::duration_cast<std::chrono::seconds>(options_.turn);
    return late;
}

std::optional<protocol::failure> model_queue::refusal(std::optional<std::size_t> model) const {
    if (closed_) return shutting_down();
    if (!model) return std::nullopt;
    const auto found = faults_.find(*model);
    if (found == faults_.end() || clock::now() >= found->second.until) return std::nullopt;
    protocol::failure failed =
        fail(errc::overloaded, options_.name_of(*model) + " is not loaded: " + found->second.why);
    failed.retry_after =
        std::chrono::ceil<std::chrono::seconds>(found->second.until - clock::now());
    return failed;
}

net::awaitable<protocol::result<engine_lease>> model_queue::lease(std::optional<std::size_t> model,
                                                                  waiting_client client) {
    auto one = std::make_shared<waiter>();
    one->model = model;
    one->since = clock::now();
    net::any_io_executor executor = co_await net::this_coro::executor;
    one->timer = std::make_shared<net::steady_timer>(executor, one->since + options_.wait);
    {
        std::unique_lock lock(mutex_);
        if (auto refused = refusal(model)) co_return std::move(*refused);
        line_.push_back(one);
        look();
        if (one->outcome) co_return std::move(*one->outcome);
        if (line_.size() > options_.waiting_max) {
            line_.remove(one);
            co_return too_many();
        }
        probe_.model_waiting.store(static_cast<std::int64_t>(line_.size()));
    }
    changed_.notify_all();
    client.when_gone([timer = one->timer] { timer->cancel(); });
    if (!client.is_gone()) {
        [[maybe_unused]] auto [error] = co_await one->timer->async_wait(use_tuple);
    }
    client.when_gone({});
    const std::chrono::duration<double> waited = clock::now() - one->since;
    probe_.model_wait.observe(waited.count());
    std::lock_guard lock(mutex_);
    if (one->outcome) co_return std::move(*one->outcome);
    line_.remove(one);
    probe_.model_waiting.store(static_cast<std::int64_t>(line_.size()));
    if (client.is_gone()) co_return engine_lease();
    co_return too_long(*one);
}

void model_queue::answer(const std::shared_ptr<waiter>& one,
                         protocol::result<engine_lease> outcome) {
    one->outcome = std::move(outcome);
    line_.remove(one);
    probe_.model_waiting.store(static_cast<std::int64_t>(line_.size()));
    // On its own strand: the wait has begun there when this arrives.
    net::post(one->timer->get_executor(), [timer = one->timer] { timer->cancel(); });
}

/// `model` could not be loaded just now, nor will it be tried again for a while.
void model_queue::fail_all_of(std::size_t model, const std::string& why) {
    faults_[model] = {why, clock::now() + options_.rest};
    const protocol::failure told = *refusal(model);
    for (const auto& each : line(line_))
        if (each->model.value_or(usual_) == model) answer(each, told);
}

std::vector<waiting_model> model_queue::waiting_models(std::optional<std::size_t> loaded) const {
    std::vector<waiting_model> waiting;
    for (const auto& each : line_) {
        const std::size_t model = each->model.value_or(loaded.value_or(usual_));
        const bool is_told = std::any_of(waiting.begin(), waiting.end(),
                                         [&](const auto& one) { return one.model == model; });
        if (model != loaded && !is_told) waiting.push_back({model, each->since});
    }
    return waiting;
}

void model_queue::serve(const slot_state& now) {
    for (const auto& each : line(line_)) {
        if (each->model && each->model != now.model) continue;
        engine_lease lease = slot_.lease();
        if (!lease) return;
        answer(each, std::move(lease));
    }
}

/// What a change has led to that is over.
void model_queue::notice_settled(const slot_state& now) {
    const auto begun = std::exchange(change_begun_, std::nullopt);
    if (begun)
        linger_ = std::chrono::duration_cast<std::chrono::milliseconds>(clock::now() - *begun);
    ready_since_ = clock::now();
    const auto asked = std::exchange(asked_, std::nullopt);
    if (!asked || now.model == asked) return;
    // Nobody else's change is this one's failure.
    if (!now.why.empty()) fail_all_of(*asked, now.why);
}

turn_decision model_queue::look_at(const slot_state& now) {
    turn_decision decision;
    if (!is_settled(now.phase)) {
        was_ready_ = false;
        const bool is_drained = now.phase != slot_phase::draining;
        if (is_drained && !change_begun_) change_begun_ = clock::now();
        return {false};
    }
    if (!std::exchange(was_ready_, true)) notice_settled(now);
    if (now.model) usual_ = *now.model;
    const bool has_engine = now.phase == slot_phase::ready;
    const auto waiting = waiting_models(has_engine ? now.model : std::nullopt);
    if (!has_engine) {
        if (!waiting.empty()) decision.next = waiting.front().model;
        return decision;
    }
    const turn_rules rules{options_.turn, linger_, options_.idle_max};
    return decide_turn({clock::now(), ready_since_, slot_.idle_since(), waiting}, rules);
}

turn_decision model_queue::look() {
    const slot_state now = slot_.state();
    const bool was_changing = !was_ready_;
    turn_decision decision = look_at(now);
    // Who waits when a model comes gets it, whatever else has waited meanwhile.
    if (now.phase == slot_phase::ready && (decision.may_begin || was_changing)) {
        serve(now);
        if (slot_.idle_since()) return decision;
        decision.unloads = false;
        if (decision.may_begin) decision.next.reset();
    }
    return decision;
}

void model_queue::change(std::unique_lock<std::mutex>& lock, const turn_decision& wanted) {
    if (!wanted.next && !wanted.unloads) return;
    const std::optional<std::size_t> next = wanted.next;
    lock.unlock();
    const std::string fault = next ? options_.fault_of(*next) : std::string();
    protocol::result<void> begun;
    if (fault.empty()) begun = switcher_.ask(next, options_.turn);
    lock.lock();
    if (!fault.empty()) return fail_all_of(*next, fault);
    if (begun) {
        asked_ = next;
        was_ready_ = false;
    }
}

void model_queue::work() {
    std::unique_lock lock(mutex_);
    while (!closed_) {
        change(lock, look());
        const auto pause = line_.empty() ? idle_glance : glance;
        if (line_.empty() && options_.idle_max.count() == 0)
            changed_.wait(lock, [this] { return closed_ || !line_.empty(); });
        else
            changed_.wait_for(lock, pause, [this] { return closed_; });
    }
}

}  // namespace semantic::server
