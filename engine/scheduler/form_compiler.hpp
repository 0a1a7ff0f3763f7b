// SPDX-License-Identifier: Apache-2.0
#pragma once
// Compiles the forms that answers are held to, and writes the texts of tools that come late where
// they are many, on threads of its own, so that one client's schema or tools do not delay another's
// request. Owner: the scheduler. Thread: any. The compiler alone writes a job's conversation until
// the job is reported; where it is reported early nobody reads the conversation any more.
//
// Order: tenants take turns, and none has more than a part of the threads; within a tenant short
// forms come before long ones, though not for ever. A job that is cancelled, or whose deadline
// passes, is reported at once, whether it waits or is worked on.

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

/// A form, or why its request ends without one.
using form_outcome = std::variant<held_form, failed, finished>;

class form_compiler {
  public:
    static constexpr int threads_max = 3;
    /// Of one tenant at a time, and of them forms of more than short_bytes_max.
    static constexpr int running_of_tenant_max = 2;
    static constexpr int long_of_tenant_max = 1;
    static constexpr std::size_t short_bytes_max = std::size_t{16} << 10;
    /// Short forms of a tenant in a row while a long one waits.
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

    void compile(const job_ptr& work);
    /// Does nothing where the job has no form under way.
    void cancel(const job_ptr& work);
    /// All that is open, and what comes until resume(), is refused: the server shuts down.
    void stop();
    void resume();

  private:
    struct entry {
        job_ptr work;
        bool is_long = false;
        bool is_running = false;
    };
    struct tenant_share {
        int running = 0, long_running = 0;
        int short_in_a_row = 0;
        std::uint64_t served = 0;  // when the last of its forms was begun
    };
    using entries = std::list<entry>;

    /// Requires, as all below: mutex_ is locked.
    void start_threads();
    entries::iterator next_entry();
    bool may_run(const entry& each, const tenant_share& share) const;
    std::optional<storage::work_budget::clock::time_point> next_deadline() const;

    void run();
    void watch_deadlines();
    form_outcome outcome_of(generation_request& request);
    /// Returns: what is wrong with the request, or nothing.
    std::optional<failed> write_late_tools(generation_request& request) const;
    void report_all(const std::vector<job_ptr>& jobs, const form_outcome& unless_cancelled);

    answer_grammars& grammars_;
    const report_outcome report_;
    const write_tools write_;
    std::mutex mutex_;
    std::condition_variable changed_;
    entries open_;  // not reported yet, in order of arrival
    std::map<storage::tenant_id, tenant_share> tenants_;
    std::uint64_t begun_ = 0;
    bool stopped_ = false;
    bool ending_ = false;
    std::vector<std::thread> threads_;
};

}  // namespace semantic::engine
