// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler/form_compiler.hpp"

#include <algorithm>
#include <sys/resource.h>
#include <system_error>
#include <tuple>
#include <utility>

namespace semantic::engine {

namespace {

// Lower priority than the threads that compute tokens: a form serves one request, a step serves
// all.
constexpr int niceness = 10;

// Bytes of the request that its form is compiled from: they decide whether the job is a long one.
std::size_t bytes_of(const generation_request& request) {
    std::size_t bytes = request.form.schema_json.size() + request.form.rules.size();
    for (const std::string& each : request.form.choices) bytes += each.size();
    for (const placed_tool& each : request.chat.placed_tools)
        bytes += each.tool.description.size() + each.tool.parameters_json.size();
    // Without calls in the answer, the form does not contain the tools' schemas.
    if (request.form.is_of_text() && !request.form.calls_too) return bytes;
    for (const tool_definition& tool : request.chat.callable_tools())
        bytes += tool.parameters_json.size();
    return bytes;
}

void cancel_budget(const job& work) {
    if (work.request.budget) work.request.budget->cancel();
}

failed shutting_down() { return {failure_kind::shutting_down, "the server is shutting down"}; }

/// The end of a request that has not begun: no stop sequence, no tokens, no saved memory.
finished ended(stop_reason why) { return {why, {}, 0, false}; }

}  // namespace

form_compiler::form_compiler(answer_grammars& grammars, report_outcome report, write_tools write)
    : grammars_(grammars), report_(std::move(report)), write_tools_(std::move(write)) {}

form_compiler::~form_compiler() {
    stop();
    {
        std::lock_guard lock(mutex_);
        ending_ = true;
    }
    changed_.notify_all();
    for (std::thread& each : threads_) each.join();
}

void form_compiler::start_threads() {
    if (!threads_.empty()) return;
    threads_.emplace_back([this] { watch_deadlines(); });
    for (int i = 0; i < threads_max; ++i) threads_.emplace_back([this] { run(); });
}

void form_compiler::compile(const job_ptr& work) {
    std::optional<form_outcome> refused;
    {
        std::lock_guard lock(mutex_);
        try {
            if (stopped_) {
                refused = shutting_down();
            } else {
                start_threads();
                open_.push_back({work, bytes_of(work->request) > short_bytes_max});
            }
        } catch (const std::system_error& error) {
            // Not every thread could be started. The first one only watches deadlines; any further
            // one can compile.
            if (threads_.size() > 1)
                open_.push_back({work, bytes_of(work->request) > short_bytes_max});
            else
                refused = failed{failure_kind::internal, error.what()};
        }
    }
    // A cancel() that came before the job was in open_ has found nothing to cancel.
    if (!refused && work->cancelled.load()) return cancel(work);
    if (refused) report_all({work}, *refused);
    changed_.notify_all();
}

void form_compiler::cancel(const job_ptr& work) {
    {
        std::lock_guard lock(mutex_);
        const auto found = std::ranges::find(open_, work, &entry::work);
        if (found == open_.end()) return;
        open_.erase(found);
    }
    report_all({work}, ended(stop_reason::cancelled));
}

void form_compiler::stop() {
    std::vector<job_ptr> left;
    {
        std::lock_guard lock(mutex_);
        stopped_ = true;
        for (entry& each : open_) left.push_back(std::move(each.work));
        open_.clear();
    }
    report_all(left, shutting_down());
}

void form_compiler::resume() {
    std::lock_guard lock(mutex_);
    stopped_ = false;
}

void form_compiler::report_all(const std::vector<job_ptr>& jobs,
                               const form_outcome& unless_cancelled) {
    for (const job_ptr& work : jobs) {
        cancel_budget(*work);  // a thread that compiles its form stops at its next charge
        const bool has_left = work->cancelled.load(std::memory_order_relaxed);
        report_(work, has_left ? form_outcome(ended(stop_reason::cancelled)) : unless_cancelled);
    }
}

bool form_compiler::may_run(const entry& each, const tenant_share& share) const {
    return !each.is_running && share.running < running_of_tenant_max &&
           (!each.is_long || share.long_running < long_of_tenant_max);
}

// Chooses the tenant whose latest form was begun longest ago, and of its entries the first short
// one, or the first long one after short_in_a_row_max short ones.
form_compiler::entries::iterator form_compiler::next_entry() {
    auto best = open_.end();
    std::tuple<std::uint64_t, bool> best_rank;
    for (auto each = open_.begin(); each != open_.end(); ++each) {
        const tenant_share& share = tenants_[each->work->request.tenant];
        if (!may_run(*each, share)) continue;
        const bool long_is_next = share.short_in_a_row >= short_in_a_row_max;
        const std::tuple rank{share.served, each->is_long != long_is_next};
        if (best != open_.end() && rank >= best_rank) continue;
        best = each;
        best_rank = rank;
    }
    return best;
}

void form_compiler::run() {
    setpriority(PRIO_PROCESS, 0, niceness);  // of this thread
    std::unique_lock lock(mutex_);
    for (;;) {
        auto next = open_.end();
        changed_.wait(lock, [&] { return ending_ || (next = next_entry()) != open_.end(); });
        if (ending_) return;
        next->is_running = true;
        const job_ptr work = next->work;
        const bool is_long = next->is_long;
        tenant_share& begun = tenants_[work->request.tenant];
        ++begun.running;
        begun.long_running += is_long ? 1 : 0;
        begun.short_in_a_row = is_long ? 0 : begun.short_in_a_row + 1;
        begun.served = ++begun_;
        lock.unlock();
        form_outcome outcome = outcome_of(work->request);
        lock.lock();
        tenant_share& done = tenants_[work->request.tenant];
        --done.running;
        done.long_running -= is_long ? 1 : 0;
        const auto found = std::ranges::find(open_, work, &entry::work);
        const bool is_open = found != open_.end();
        if (is_open) open_.erase(found);
        // With nothing open, tenants that have no form running need no account: all are equal.
        if (open_.empty())
            std::erase_if(tenants_, [](const auto& each) { return each.second.running == 0; });
        lock.unlock();
        changed_.notify_all();
        // Otherwise it was cancelled, late or refused meanwhile, and is reported already.
        if (is_open) report_(work, std::move(outcome));
        lock.lock();
    }
}

std::optional<failed> form_compiler::write_late_tools(generation_request& request) const {
    if (!write_tools_ || request.chat.placed_tools.empty()) return std::nullopt;
    storage::work_budget own;
    auto written = write_tools_(request.chat, request.budget ? *request.budget : own);
    if (written) return std::nullopt;
    return failed{failure_kind::bad_request, written.error().what};
}

form_outcome form_compiler::outcome_of(generation_request& request) {
    try {
        if (auto why = write_late_tools(request)) return *std::move(why);
        auto form = grammars_.compile(request);
        if (form) return std::move(*form);
        return failed{failure_kind::bad_request, form.error().what, {}, part_of(request.form)};
    } catch (const storage::work_limit_exceeded& error) {
        // The other limits, of steps and bytes, become errors in compile().
        const bool is_late = error.exceeded() == storage::work_limit_exceeded::limit::deadline;
        return ended(is_late ? stop_reason::deadline : stop_reason::cancelled);
    } catch (const std::exception& error) {
        return failed{failure_kind::internal, error.what()};
    }
}

std::optional<storage::work_budget::clock::time_point> form_compiler::next_deadline() const {
    std::optional<storage::work_budget::clock::time_point> next;
    for (const entry& each : open_)
        if (const auto& mine = each.work->request.deadline; mine && (!next || *mine < *next))
            next = mine;
    return next;
}

/// The body of a thread that ends requests whose deadline passes while they wait for their form.
void form_compiler::watch_deadlines() {
    std::unique_lock lock(mutex_);
    while (!ending_) {
        if (const auto next = next_deadline())
            changed_.wait_until(lock, *next);
        else
            changed_.wait(lock);
        const auto now = storage::work_budget::clock::now();
        std::vector<job_ptr> late;
        std::erase_if(open_, [&](const entry& each) {
            const bool is_late = each.work->request.deadline && *each.work->request.deadline <= now;
            if (is_late) late.push_back(each.work);
            return is_late;
        });
        if (late.empty()) continue;
        lock.unlock();
        report_all(late, ended(stop_reason::deadline));
        lock.lock();
    }
}

}  // namespace semantic::engine
