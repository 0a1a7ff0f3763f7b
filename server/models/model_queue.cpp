// SPDX-License-Identifier: Apache-2.0
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

constexpr std::chrono::milliseconds glance{5};  // between two looks while a request waits
// The same while no request waits, but an idle model may be unloaded.
constexpr std::chrono::milliseconds idle_glance{200};

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

model_queue::model_queue(engine_slots& slots, model_switches& switcher, server_probe& probe,
                         queue_options options)
    : slots_(slots),
      switcher_(switcher),
      probe_(probe),
      options_(std::move(options)),
      usual_(options_.start),
      watches_(slots.size()),
      thread_([this] { work(); }) {}

model_queue::~model_queue() { close(); }

void model_queue::close() {
    {
        std::lock_guard lock(mutex_);
        closed_ = true;
        // A copy, since answer() removes requests from line_; so also below.
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
    late.retry_after = std::chrono::duration_cast<std::chrono::seconds>(options_.slice);
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
        // look() comes before the bound: a request that is served at once need not wait.
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
    // An empty lease: nobody is there to read an error.
    if (client.is_gone()) co_return engine_lease();
    co_return too_long(*one);
}

void model_queue::answer(const std::shared_ptr<waiter>& one,
                         protocol::result<engine_lease> outcome) {
    one->outcome = std::move(outcome);
    line_.remove(one);
    probe_.model_waiting.store(static_cast<std::int64_t>(line_.size()));
    // On the timer's strand, so that its wait has begun when this cancels it.
    net::post(one->timer->get_executor(), [timer = one->timer] { timer->cancel(); });
}

void model_queue::fail_all_of(std::size_t model, const std::string& why) {
    faults_[model] = {why, clock::now() + options_.rest};
    // There is one, since the fault was noted just now.
    const protocol::failure refused = *refusal(model);
    for (const auto& each : line(line_))
        if (each->model.value_or(usual_) == model) answer(each, refused);
}

std::vector<waiting_model> model_queue::waiting_models(const std::vector<slot_state>& now) const {
    const auto is_ready = [&](std::size_t model) {
        return std::any_of(now.begin(), now.end(), [&](const slot_state& each) {
            return each.phase == slot_phase::ready && each.model == model;
        });
    };
    const slot_state& usual = now[slots_.usual_index()];
    std::vector<waiting_model> waiting;
    for (const auto& each : line_) {
        if (!each->model && usual.phase == slot_phase::ready) continue;
        const std::size_t model = each->model.value_or(usual_);
        const bool is_listed = std::any_of(waiting.begin(), waiting.end(),
                                           [&](const auto& one) { return one.model == model; });
        if (!is_ready(model) && !is_listed) waiting.push_back({model, each->since});
    }
    return waiting;
}

void model_queue::serve(std::size_t slot, const slot_state& now) {
    const bool is_usual = slot == slots_.usual_index();
    for (const auto& each : line(line_)) {
        if (each->model ? each->model != now.model : !is_usual) continue;
        engine_lease lease = slots_.at(slot).lease();
        if (!lease) return;
        answer(each, std::move(lease));
    }
}

void model_queue::notice_settled(watch& watched, const slot_state& now) {
    const auto begun = std::exchange(watched.change_begun, std::nullopt);
    if (begun)
        linger_ = std::chrono::duration_cast<std::chrono::milliseconds>(clock::now() - *begun);
    watched.ready_since = clock::now();
    is_crowded_ = false;
    const auto asked = std::exchange(watched.asked, std::nullopt);
    if (!asked || now.model == asked) return;
    // Only a change that this queue began can fail its requests.
    if (!now.why.empty()) fail_all_of(*asked, now.why);
}

void model_queue::notice(watch& watched, const slot_state& now) {
    if (is_settled(now.phase)) {
        if (!std::exchange(watched.was_settled, true)) notice_settled(watched, now);
        return;
    }
    watched.was_settled = false;
    const bool is_drained = now.phase != slot_phase::draining;
    if (is_drained && !watched.change_begun) watched.change_begun = clock::now();
}

std::optional<std::size_t> model_queue::slot_for(const std::vector<slot_state>& now) const {
    std::vector<slot_view> views;
    for (std::size_t i = 0; i < now.size(); ++i)
        views.push_back({now[i].phase, slots_.at(i).idle_since(), watches_[i].ready_since});
    return choose_slot(views, !is_crowded_);
}

slice_decision model_queue::look_at_ready(std::size_t slot, const slot_state& now,
                                          bool was_changing,
                                          std::span<const waiting_model> waiting) {
    const slice_rules rules{options_.slice, linger_, options_.idle_max};
    slice_decision decision = decide_slice(
        {clock::now(), watches_[slot].ready_since, slots_.at(slot).idle_since(), waiting}, rules);
    // A request gets its model when that has just been loaded, even if others have waited longer.
    if (!decision.may_begin && !was_changing) return decision;
    serve(slot, now);
    if (slots_.at(slot).idle_since()) return decision;
    decision.unloads = false;
    if (decision.may_begin) decision.next.reset();
    return decision;
}

std::optional<model_queue::change_wish> model_queue::look() {
    std::vector<slot_state> now;
    std::vector<bool> was_changing;
    for (std::size_t i = 0; i < slots_.size(); ++i) {
        now.push_back(slots_.at(i).state());
        was_changing.push_back(!watches_[i].was_settled);
        notice(watches_[i], now[i]);
    }
    const slot_state& usual = now[slots_.usual_index()];
    if (is_settled(usual.phase) && usual.model) usual_ = *usual.model;
    const std::vector<waiting_model> waiting = waiting_models(now);
    // The index of no slot (now.size()) means that none is given to another model.
    const std::size_t given = waiting.empty() ? now.size() : slot_for(now).value_or(now.size());
    std::optional<change_wish> wish;
    for (std::size_t i = 0; i < now.size(); ++i) {
        if (now[i].phase != slot_phase::ready) {
            if (given == i) wish = {i, {true, waiting.front().model}};
            continue;
        }
        const auto some =
            given == i ? std::span<const waiting_model>(waiting) : std::span<const waiting_model>();
        const slice_decision decided = look_at_ready(i, now[i], was_changing[i], some);
        if (!wish && (decided.next || decided.unloads)) wish = {i, decided};
    }
    return wish;
}

bool model_queue::gives_way_to_others(std::size_t slot) const {
    return slots_.at(slot).state().phase != slot_phase::ready && slots_.any_ready();
}

void model_queue::change(std::unique_lock<std::mutex>& lock, const change_wish& wanted) {
    const std::optional<std::size_t> next = wanted.decision.next;
    lock.unlock();
    const std::string fault = next ? options_.fault_of(*next, wanted.slot) : std::string();
    const bool has_begun =
        fault.empty() && switcher_.ask(wanted.slot, next, options_.slice).has_value();
    lock.lock();
    // The fault may be that the memory has no room for one more model. The next look() then lets it
    // replace another one.
    if (!fault.empty() && gives_way_to_others(wanted.slot) && !is_crowded_) {
        is_crowded_ = true;
        return;
    }
    if (!fault.empty()) return fail_all_of(*next, fault);
    if (has_begun) {
        watches_[wanted.slot].asked = next;
        watches_[wanted.slot].was_settled = false;
    }
}

void model_queue::work() {
    std::unique_lock lock(mutex_);
    while (!closed_) {
        if (const auto wish = look()) change(lock, *wish);
        const auto pause = line_.empty() ? idle_glance : glance;
        // 0: idle models stay loaded, so there is nothing to do before a request comes.
        if (line_.empty() && options_.idle_max.count() == 0)
            changed_.wait(lock, [this] { return closed_ || !line_.empty(); });
        else
            changed_.wait_for(lock, pause, [this] { return closed_; });
    }
}

}  // namespace semantic::server
