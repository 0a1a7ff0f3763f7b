// SPDX-License-Identifier: Apache-2.0
#pragma once
// Compiles the forms (JSON schemas, grammars, choices) that constrain answers, on threads of its
// own, so that one client's large schema does not delay another's request. It also writes the
// prompt text of late tools: tools that a client adds in the middle of a conversation. Owner: the
// scheduler. Thread: any. Only the compiler writes a job's conversation until the job is reported;
// if it is reported early (cancelled, late), nobody reads the conversation any more.
//
// Order: tenants take turns, and none uses all threads at once; within a tenant short forms come
// before long ones, but at most short_in_a_row_max of them while a long one waits. A job that is
// cancelled, or whose deadline passes, is reported at once, also while a thread works on it.

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <variant>
#include <vector>

#include "engine/grammar/forms/answer_grammar.hpp"
#include "engine/scheduler/queue/job.hpp"

namespace semantic::engine {

/// The compiled form, or the last event of a request that ends without one.
using form_outcome = std::variant<held_form, failed, finished>;

class form_compiler {
  public:
    static constexpr int threads_max = 3;
    /// Jobs of one tenant that run at a time, and how many of these may have forms of more than
    /// short_bytes_max.
    static constexpr int running_of_tenant_max = 2;
    static constexpr int long_of_tenant_max = 1;
    static constexpr std::size_t short_bytes_max = std::size_t{16} << 10;
    /// Short forms of a tenant that may start one after the other while a long one waits.
    static constexpr int short_in_a_row_max = 4;

    using report_outcome = std::function<void(const job_ptr&, form_outcome)>;
    /// Writes the late tools of a conversation (resolver::write_late_tools).
    using write_tools = std::function<storage::result<void>(conversation&, storage::work_budget&)>;

    /// `report`: called once for each job, from one of several threads; must not block. Threads
    /// start with the first job.
    form_compiler(answer_grammars& grammars, report_outcome report, write_tools write = {});
    /// Reports what is open as stop() does, and waits for the threads.
    ~form_compiler();
    form_compiler(const form_compiler&) = delete;
    form_compiler& operator=(const form_compiler&) = delete;

    /// Queues the job's form; the outcome is reported later, or at once if the job is refused.
    void compile(const job_ptr& work);
    /// Reports the job as cancelled. Does nothing if its form is neither queued nor running.
    void cancel(const job_ptr& work);
    /// Refuses all jobs that are not reported yet, and all that come until resume(): the server
    /// shuts down.
    void stop();
    void resume();

  private:
    struct entry {
        job_ptr work;
        bool is_long = false;     // its form has more than short_bytes_max
        bool is_running = false;  // a thread compiles it
    };
    struct tenant_share {
        int running = 0, long_running = 0;  // forms that threads compile now
        int short_in_a_row = 0;             // begun since its latest long one
        std::uint64_t served = 0;           // value of begun_ when its latest form was begun
    };
    using entries = std::list<entry>;

    /// Requires, as all below: mutex_ is locked. Does nothing once a thread exists. Throws
    /// std::system_error; the threads that started stay.
    void start_threads();
    /// Returns: the entry that a free thread works on next; open_.end() if none may run now.
    entries::iterator next_entry();
    bool may_run(const entry& each, const tenant_share& share) const;
    std::optional<storage::work_budget::clock::time_point> next_deadline() const;
    /// The loop of a compiling thread, and that of the thread that reports late jobs. Both return
    /// when ending_ is set, and lock mutex_ themselves, as all below.
    void run();
    void watch_deadlines();
    /// Compiles the form; errors become outcomes.
    form_outcome outcome_of(generation_request& request);
    /// Writes the texts of the request's late tools into its conversation. Returns: what is wrong
    /// with the request, or nothing.
    std::optional<failed> write_late_tools(generation_request& request) const;
    /// Reports each job: as cancelled if its client has cancelled it, otherwise with the outcome
    /// given. Must not be called with mutex_ locked.
    void report_all(const std::vector<job_ptr>& jobs, const form_outcome& unless_cancelled);

    answer_grammars& grammars_;
    const report_outcome report_;
    const write_tools write_tools_;
    std::mutex mutex_;
    std::condition_variable changed_;
    entries open_;  // not reported yet, in order of arrival
    std::map<storage::tenant_id, tenant_share> tenants_;
    std::uint64_t begun_ = 0;           // forms so far
    bool stopped_ = false;              // from stop() to resume(): every job is refused
    bool ending_ = false;               // in the destructor: the threads return
    std::vector<std::thread> threads_;  // the first one watches the deadlines
};

}  // namespace semantic::engine
