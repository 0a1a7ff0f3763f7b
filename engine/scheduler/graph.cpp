// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler/graph.hpp"

#include <oneapi/tbb/flow_graph.h>
#include <oneapi/tbb/task_arena.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>
#include <variant>

#include "engine/scheduler/agent_refresh.hpp"
#include "engine/scheduler/agent_saves.hpp"
#include "engine/scheduler/form_compiler.hpp"
#include "engine/scheduler/policy/wait_estimate.hpp"
#include "engine/scheduler/resolve_stage.hpp"
#include "engine/scheduler/save_gate.hpp"
#include "engine/scheduler/telling.hpp"
#include "storage/agents/agent_strands.hpp"
#include "storage/objects/agents/shared_agents.hpp"

namespace semantic::engine {

namespace flow = oneapi::tbb::flow;

namespace {

// Messages to the nodes. A `wake` carries nothing: the node checks what was cancelled, and whether
// what waits can run now.
struct wake {};
struct next_step {};  // the step node to itself, at most one under way
struct arrived {
    job_ptr work;
};
struct released {
    job_ptr work;
};
struct formed {
    job_ptr work;
    form_outcome outcome;
};
using resolve_message = std::variant<arrived, formed, released, wake>;
struct resolved {
    job_ptr work;
};
struct prefix_arriving {
    job_ptr work;
    storage::restored_prefix begun;
};
struct prefix_ready {
    job_ptr work;
    storage::restored_prefix found;
};
using step_message = std::variant<resolved, prefix_arriving, prefix_ready, wake, next_step>;
struct emission {
    job_ptr work;
    generation_event event;
};
using emissions = std::vector<emission>;  // handed over together

// Disk work overlaps with compute and mostly waits, so two threads are enough to keep a disk busy.
constexpr std::size_t storage_threads = 2;
// More threads with an object store: they wait for the network, and must not hold up the disk.
constexpr std::size_t shared_storage_threads = 16;
// Forms that are being compiled when the server stops may be finished within this time.
constexpr std::chrono::milliseconds form_grace{100};
// Far above what max_queued requests ask for at once; beyond it a save is put off, never a request.
constexpr std::size_t storage_jobs_max = 4096;

double seconds_since(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

bool is_last(const generation_event& event) {
    return std::holds_alternative<finished>(event) || std::holds_alternative<failed>(event);
}

}  // namespace

struct scheduler::impl final : batch_outputs,
                               resolve_outputs,
                               refresh_outputs,
                               save_outputs,
                               save_gate::receiver,
                               storage::room_listener {
    using resolve_node =
        flow::multifunction_node<resolve_message, std::tuple<step_message, emissions>>;
    using step_node =
        flow::multifunction_node<step_message, std::tuple<step_message, emissions, ended_request>>;
    using commit_node =
        flow::multifunction_node<ended_request, std::tuple<resolve_message, emissions>>;
    using emit_node = flow::function_node<emissions>;
    class early_prefix;

    compute_arena& arena;
    const resolver& prompts;
    const storage::block_pool& frames;
    storage::agent_cache_store& store;
    scheduler_options options;
    engine_probe& probe;
    storage::agent_strands strands{options.shared ? shared_storage_threads : storage_threads,
                                   storage_jobs_max};
    // Look-ups and saves under way, or on their way to the commit node: they hold blocks that no
    // sequence runs on.
    std::atomic<int> transient_holds{0};
    // Requests on their way to the step node: messages to it, and to resolve, that these have not
    // seen yet. Counted from submit on: the thread that waits in a step may be the one that would
    // resolve them.
    std::atomic<int> inbound{0};

    std::mutex jobs_mutex;  // guards jobs, open, next_id, draining and waits
    std::condition_variable jobs_changed;
    std::map<request_id, job_ptr> jobs;  // submitted, last event not yet delivered
    std::size_t open = 0;                // of them, those whose last event is not on its way yet
    request_id next_id = 1;
    bool draining = false;
    wait_estimate waits;

    answer_grammars grammars;

    std::optional<flow::graph> graph;
    std::optional<resolve_node> resolve;
    std::optional<resolve_stage> stage;  // owned by the resolve node
    std::optional<form_compiler> forms;
    std::optional<step_node> step;
    std::optional<commit_node> commit;
    std::optional<emit_node> emit;
    batch running;                    // owned by the step node
    emissions step_events;            // owned by the step node: the tokens of this step so far
    bool step_queued = false;         // owned by the step node: a next_step is queued
    std::shared_ptr<save_gate> gate;  // shared with uploads that outlive the scheduler
    const agent_claims claims{store, options.leases, options.when_held};
    std::optional<agent_saves> saves;
    std::optional<agent_refresh> refresh;
    std::thread host;

    impl(compute_arena& a, transformer& model, const tokenizer& words, const resolver& r,
         storage::block_pool& pool, storage::agent_cache_store& s, scheduler_options o,
         engine_probe& p)
        : arena(a),
          prompts(r),
          frames(pool),
          store(s),
          options(std::move(o)),
          probe(p),
          grammars(words, options.batch.answers.answers, options.batch.answers.chat_template),
          running(model, words, pool, store, options.batch, probe, *this) {
        arena.run([this] { build(); });
        frames.budget().set_listener(frames, this);
        gate = std::make_shared<save_gate>(*this);
        saves.emplace(agent_saves::services{store, probe, gate, options.shared, options.shared_wait,
                                            claims, options.max_hot_agents, *this});
        refresh.emplace(store, options.shared, claims, *this);
        const auto report = [this](const job_ptr& work, form_outcome outcome) {
            inbound.fetch_add(1);
            resolve->try_put(formed{work, std::move(outcome)});
        };
        const auto write = [this](conversation& chat, storage::work_budget& budget) {
            return prompts.write_late_tools(chat, budget);
        };
        forms.emplace(grammars, report, write);
        stage.emplace(prompts, store, grammars, *this);
        graph->reserve_wait();
        try {
            host = std::thread([this] { arena.run([this] { graph->wait_for_all(); }); });
        } catch (...) {
            graph->release_wait();  // its destructor waits, and nobody else would end that
            throw;
        }
    }

    void build();
    void on_resolve(const resolve_message& message);
    void on_step(const step_message& message, step_node::output_ports_type& out);
    void on_commit(const ended_request& ended, commit_node::output_ports_type& out);
    void on_emit(const emissions& messages);
    void flush_events();
    void deliver(const emission& message);
    bool queue_step(step_node::output_ports_type& out);

    void release_files(job& work);
    void close(const job& work);
    queued place_in_queue() const { return waits.place_behind(open, options.batch.max_batch); }
    void show_wait();
    void end_all(std::chrono::steady_clock::time_point deadline);

    void emit_event(const job_ptr& work, generation_event event) override;
    void commit_end(ended_request ended) override;
    void save_agent(const storage::agent_id& agent, storage::save_extent extent) override {
        saves->save(agent, 0, extent);
    }
    bool are_blocks_held() const override { return transient_holds.load() > 0; }
    void restore_prefix(const job_ptr& work) override;
    bool are_requests_arriving() const override { return inbound.load() > 0; }
    void announce_wait(const job_ptr& work, queued place) override;

    void compile_form(const job_ptr& work) override { forms->compile(work); }
    void pass_on(const job_ptr& work) override;
    void end_request(const job_ptr& work, generation_event last) override;
    void announce_earlier(const job_ptr& work, int count) override;
    void hold_blocks() override {
        transient_holds.fetch_add(1);
        frames.budget().set_busy(frames, true);  // the step that follows says whether it still is
    }
    void release_blocks() override {
        transient_holds.fetch_sub(1);
        frames.budget().tell_of_evictable(frames);  // other models may be short of it
        step->try_put(wake{});  // the blocks may be evicted now for requests that wait
    }

    bool post(const storage::agent_id& agent, std::function<void()> work) override;
    bool is_extended(const storage::agent_id& agent, const job& later) override;
    void arrive(const job_ptr& work) override;
    void refuse(const job_ptr& work, failed why) override {
        emit->try_put({{work, std::move(why)}});
    }
    void begin_save() override { transient_holds.fetch_add(1); }
    void deliver_end(const job_ptr& work, finished last) override {
        emit->try_put({{work, std::move(last)}});
    }
    void notice_room() override { step->try_put(wake{}); }
    void warn(std::string text) const override {
        if (options.on_warning) options.on_warning(std::move(text));
    }
};

// The picture in graph.hpp, in code.
void scheduler::impl::build() {
    graph.emplace();
    resolve.emplace(*graph, flow::serial,
                    [this](const resolve_message& m, auto&) noexcept { on_resolve(m); });
    step.emplace(*graph, flow::serial,
                 [this](const step_message& m, auto& out) noexcept { on_step(m, out); });
    commit.emplace(*graph, flow::serial,
                   [this](const ended_request& m, auto& out) noexcept { on_commit(m, out); });
    emit.emplace(*graph, flow::serial, [this](const emissions& m) noexcept { on_emit(m); });

    flow::make_edge(flow::output_port<0>(*resolve), *step);
    flow::make_edge(flow::output_port<1>(*resolve), *emit);
    flow::make_edge(flow::output_port<0>(*step), *step);  // again
    flow::make_edge(flow::output_port<1>(*step), *emit);
    flow::make_edge(flow::output_port<2>(*step), *commit);
    flow::make_edge(flow::output_port<0>(*commit), *resolve);
    flow::make_edge(flow::output_port<1>(*commit), *emit);
}

void scheduler::impl::emit_event(const job_ptr& work, generation_event event) {
    const bool gathers = std::holds_alternative<token_text>(event);
    step_events.push_back({work, std::move(event)});
    if (!gathers) flush_events();
}

void scheduler::impl::commit_end(ended_request ended) {
    flush_events();  // its tokens, before its end
    if (ended.remembered) transient_holds.fetch_add(1);
    std::get<2>(step->output_ports()).try_put(std::move(ended));
}

void scheduler::impl::pass_on(const job_ptr& work) {
    inbound.fetch_add(1);
    transient_holds.fetch_sub(1);  // the message below asks for a step
    std::get<0>(resolve->output_ports()).try_put(resolved{work});
}

void scheduler::impl::end_request(const job_ptr& work, generation_event last) {
    std::get<1>(resolve->output_ports()).try_put({{work, std::move(last)}});
}

void scheduler::impl::announce_earlier(const job_ptr& work, int count) {
    if (!std::exchange(work->told_to_wait, true))
        announce_wait(work, {count + 1, std::chrono::seconds(0)});
}

/// The resolve node's body: handles one message. The node runs one message at a time.
void scheduler::impl::on_resolve(const resolve_message& message) {
    if (auto* m = std::get_if<arrived>(&message)) {
        inbound.fetch_sub(1);
        // A step that gave way to this request goes on without it.
        if (!stage->arrive(m->work)) step->try_put(wake{});
    } else if (auto* f = std::get_if<formed>(&message)) {
        inbound.fetch_sub(1);
        stage->take_form(f->work, f->outcome);
        step->try_put(wake{});
    } else if (auto* r = std::get_if<released>(&message)) {
        stage->release(r->work->prompt->agent);
    } else {
        stage->drop_cancelled();
    }
}

// Sends the step node its next step. A single-threaded arena would run a message that a node sends
// to itself before all others, so no token would be emitted and no request arrive until all answers
// are complete: there the message is sent by a later task, after those that wait.
bool scheduler::impl::queue_step(step_node::output_ports_type& out) {
    if (arena.threads() > 1) return std::get<0>(out).try_put(next_step{});
    graph->reserve_wait();
    arena.run_later([this] {
        step->try_put(next_step{});
        graph->release_wait();
    });
    return true;
}

void scheduler::impl::on_step(const step_message& message, step_node::output_ports_type& out) {
    if (auto* m = std::get_if<resolved>(&message)) {
        inbound.fetch_sub(1);
        running.add(m->work);
    } else if (auto* a = std::get_if<prefix_arriving>(&message)) {
        running.arriving(a->work, a->begun);
    } else if (auto* p = std::get_if<prefix_ready>(&message)) {
        inbound.fetch_sub(1);
        running.restored(p->work, p->found);
    } else if (std::holds_alternative<next_step>(message)) {
        step_queued = false;
    }
    if (step_queued) return;  // a step is queued already and will see what just came
    bool more = false;
    // Isolated: while this thread waits for its kernels it must not pick up another node's work.
    oneapi::tbb::this_task_arena::isolate([&] { more = running.run_step(); });
    flush_events();
    step_queued = more && queue_step(out);
}

/// The commit node's body: saves the memory of a request that has ended, and passes its end on, at
/// once or after the save.
void scheduler::impl::on_commit(const ended_request& ended, commit_node::output_ports_type& out) {
    const job_ptr& work = ended.work;
    storage::agent_id agent = work->prompt->agent;
    const finished* last = std::get_if<finished>(&ended.last);
    const bool wait = ended.remembered && last;  // the end waits for the save
    // Sent before the end can reach the client, whose next turn must find the agent free. Messages
    // to resolve keep their order.
    std::get<0>(out).try_put(released{work});
    if (wait)
        gate->hold(work, *last,
                   std::chrono::steady_clock::now() + options.save_wait + options.shared_wait);
    if (ended.remembered) {
        const request_id waiting = wait ? work->id : 0;
        work->drops_memory() ? saves->drop(agent, waiting) : saves->save(agent, waiting);
        release_blocks();
    }
    if (!wait) std::get<1>(out).try_put({{work, ended.last}});
}

// Gives the step's tokens to the emit node in one message.
void scheduler::impl::flush_events() {
    if (step_events.empty()) return;
    std::get<1>(step->output_ports()).try_put(step_events);
    step_events.clear();
}

void scheduler::impl::on_emit(const emissions& messages) {
    std::vector<std::shared_ptr<generation_sink>> sinks;
    for (const emission& message : messages) {
        sinks.push_back(message.work->sink);
        deliver(message);
    }
    for (const auto& sink : sinks) sink->on_group_end();
}

/// Gives an event to the request's client.
void scheduler::impl::deliver(const emission& message) {
    bool last = is_last(message.event);
    if (last) tell_end(*message.work, message.event, probe);
    // Done before the client gets the event: its next request must find the slot and agent free.
    if (last) {
        message.work->pins.clear();
        release_files(*message.work);
        close(*message.work);
    }
    message.work->sink->on_event(message.event);
    if (!last) return;
    message.work->sink.reset();
    std::lock_guard lock(jobs_mutex);
    jobs.erase(message.work->id);
    jobs_changed.notify_all();
}

// Lets go of the files that the request pinned. Deleting those that nobody else pins may block, so
// the last references are destroyed on the agent's strand; if its queue is full, here.
void scheduler::impl::release_files(job& work) {
    auto all = std::exchange(work.outdated_files, {});
    if (work.files) all.push_back(std::exchange(work.files, nullptr));
    std::erase_if(all, [](const auto& files) { return files->release_shared(); });
    if (!all.empty()) (void)post(work.prompt->agent, [all = std::move(all)] {});
}

void scheduler::impl::close(const job& work) {
    std::lock_guard lock(jobs_mutex);
    if (!jobs.contains(work.id)) return;  // it was refused
    --open;
    if (work.admitted) waits.learn(seconds_since(*work.admitted));
    show_wait();
}

void scheduler::impl::show_wait() {
    auto estimate = std::chrono::milliseconds(place_in_queue().estimate);
    probe.wait_estimate_ms.store(estimate.count(), std::memory_order_relaxed);
}

/// Sends the client its position in the queue. Without an estimate in `place`, the wait is
/// estimated from how long requests took so far.
void scheduler::impl::announce_wait(const job_ptr& work, queued place) {
    if (place.estimate.count() == 0) {
        std::lock_guard lock(jobs_mutex);
        place.estimate = waits.whole_seconds(place.ahead, options.batch.max_batch);
    }
    emit->try_put({{work, place}});
}

/// Refuses new requests and blocks until all others have ended. Those still open at `deadline` are
/// cancelled. Those whose form is not compiled within form_grace are refused.
void scheduler::impl::end_all(std::chrono::steady_clock::time_point deadline) {
    std::unique_lock lock(jobs_mutex);
    draining = true;
    auto idle = [this] { return jobs.empty(); };
    const auto forms_until = std::min(deadline, std::chrono::steady_clock::now() + form_grace);
    if (jobs_changed.wait_until(lock, forms_until, idle)) return;
    lock.unlock();
    forms->stop();
    lock.lock();
    if (jobs_changed.wait_until(lock, deadline, idle)) return;
    for (auto& [id, work] : jobs) {
        work->cancelled.store(true, std::memory_order_relaxed);
        work->request.budget->cancel();
    }
    lock.unlock();
    resolve->try_put(wake{});
    step->try_put(wake{});
    gate->set_patient(false);
    lock.lock();
    jobs_changed.wait(lock, idle);
}

/// Runs `work` on the agent's strand, after the agent's earlier work. The graph, which it may send
/// messages to, is not done before the work has ended. Returns: false, and does nothing, when
/// too many are waiting.
bool scheduler::impl::post(const storage::agent_id& agent, std::function<void()> work) {
    graph->reserve_wait();
    const bool queued = strands.post(agent, [this, work = std::move(work)]() mutable {
        work();
        work = nullptr;  // what it holds may send messages when it ends, too
        graph->release_wait();
    });
    if (!queued) graph->release_wait();
    return queued;
}

void scheduler::impl::arrive(const job_ptr& work) {
    inbound.fetch_add(1);
    resolve->try_put(arrived{work});
}

bool scheduler::impl::is_extended(const storage::agent_id& agent, const job& later) {
    std::lock_guard lock(jobs_mutex);
    return std::ranges::any_of(jobs, [&](const auto& each) {
        return each.first < later.id && each.second->request.agent == agent;
    });
}

/// Hands a prefix that is still being read to the step node.
class scheduler::impl::early_prefix final : public storage::prefix_receiver {
  public:
    early_prefix(step_node& step, const job_ptr& work) : step_(step), work_(work) {}

    void receive_arriving(storage::restored_prefix begun) override {
        step_.try_put(prefix_arriving{work_, std::move(begun)});
    }

  private:
    step_node& step_;
    const job_ptr& work_;
};

void scheduler::impl::restore_prefix(const job_ptr& work) {
    auto ready = [this, work](storage::restored_prefix found) {
        inbound.fetch_add(1);
        step->try_put(prefix_ready{work, std::move(found)});
    };
    auto lost = [](std::string why) {  // a prefix of no tokens: all are computed
        return storage::restored_prefix{{}, 0, 0, storage::shortfall::evicted, std::move(why), 0};
    };
    // This closure pins source and files itself: an early start releases the job's pins first.
    auto read = [this, work, ready, lost, source = work->prompt->source,
                 files = std::exchange(work->files, nullptr)]() mutable {
        early_prefix early(*step, work);
        const auto began = std::chrono::steady_clock::now();
        auto restored = store.restore(*source, work->prompt->reuse_tokens, &early);
        auto found = restored ? std::move(*restored) : lost(restored.error().what);
        tell_restore(work->prompt->agent, found, began, probe);
        if (found.why == storage::shortfall::corrupt) warn(found.detail);
        source.reset();
        files.reset();
        ready(std::move(found));
    };
    if (post(work->prompt->source->id, std::move(read))) return;
    ready(lost("too much disk work is waiting to read the prefix"));
}

scheduler::scheduler(compute_arena& arena, transformer& model, const tokenizer& words,
                     const resolver& prompts, storage::block_pool& pool,
                     storage::agent_cache_store& store, scheduler_options options,
                     engine_probe& probe)
    : impl_(std::make_unique<impl>(arena, model, words, prompts, pool, store, std::move(options),
                                   probe)) {}

scheduler::~scheduler() {
    impl_->end_all(std::chrono::steady_clock::now());
    impl_->frames.budget().set_listener(impl_->frames, nullptr);
    impl_->forms.reset();
    impl_->graph->release_wait();
    impl_->host.join();  // until no node and no storage job is under way
    impl_->saves.reset();
    impl_->gate.reset();  // its own thread may be on its way out of the graph
}

request_id scheduler::submit(generation_request request, std::shared_ptr<generation_sink> sink) {
    auto work = std::make_shared<job>();
    work->request = std::move(request);
    if (!work->request.budget) {
        storage::work_budget::limits most;
        most.bytes = impl_->options.request_bytes;
        most.deadline = work->request.deadline.value_or(most.deadline);
        work->request.budget = std::make_shared<storage::work_budget>(most);
    }
    work->sink = std::move(sink);
    work->submitted = std::chrono::steady_clock::now();
    impl_->probe.requests_submitted.fetch_add(1, std::memory_order_relaxed);
    std::optional<failed> refused;
    std::optional<queued> waits;
    {
        std::lock_guard lock(impl_->jobs_mutex);
        work->id = impl_->next_id++;
        auto limit =
            static_cast<std::size_t>(impl_->options.max_queued + impl_->options.batch.max_batch);
        if (impl_->draining)
            refused = failed{failure_kind::shutting_down, "the server is shutting down"};
        else if (impl_->open >= limit)
            refused = impl_->waits.overloaded(limit, impl_->open, impl_->options.batch.max_batch);
        else {
            if (impl_->open >= static_cast<std::size_t>(impl_->options.batch.max_batch))
                waits = impl_->place_in_queue();
            work->told_to_wait = waits.has_value();
            impl_->jobs.emplace(work->id, work);
            ++impl_->open;
            impl_->show_wait();
        }
    }
    tell_arrival(*work, waits ? waits->ahead : 0, impl_->probe);
    if (waits) impl_->emit->try_put({{work, *waits}});
    if (refused)
        impl_->emit->try_put({{work, *refused}});
    else
        impl_->refresh->begin(work);
    return work->id;
}

void scheduler::cancel(request_id id) {
    job_ptr work;
    {
        std::lock_guard lock(impl_->jobs_mutex);
        auto found = impl_->jobs.find(id);
        if (found == impl_->jobs.end()) return;
        work = found->second;
        work->cancelled.store(true, std::memory_order_relaxed);
    }
    work->request.budget->cancel();
    impl_->forms->cancel(work);
    impl_->resolve->try_put(wake{});
    impl_->step->try_put(wake{});
}

void scheduler::with_transient_hold(const std::function<void()>& action) {
    impl_->hold_blocks();  // `held` releases them, also if action() throws
    const std::shared_ptr<void> held(nullptr, [this](void*) { impl_->release_blocks(); });
    action();
}
std::size_t scheduler::disk_jobs() const { return impl_->strands.pending(); }
void scheduler::wait_for_saves() { impl_->strands.drain(); }
void scheduler::drain(std::chrono::steady_clock::time_point deadline) {
    impl_->end_all(deadline);
    for (const storage::agent_id& agent : impl_->store.dirty_agents()) impl_->saves->save(agent, 0);
    impl_->strands.drain();
    if (impl_->options.shared)
        impl_->options.shared->flush(std::max(std::chrono::milliseconds(0),
                                              std::chrono::duration_cast<std::chrono::milliseconds>(
                                                  deadline - std::chrono::steady_clock::now())));
}

void scheduler::resume() {
    impl_->gate->set_patient(true);
    impl_->forms->resume();
    std::lock_guard lock(impl_->jobs_mutex);
    impl_->draining = false;
}

}  // namespace semantic::engine
