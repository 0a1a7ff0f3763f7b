// SPDX-License-Identifier: Apache-2.0
#pragma once
// Holds the end of an answer until its memory is on disk, but never longer than a bound: a client
// that has seen the end can pull the plug, and a slow disk cannot hold up an answer for ever.
// Owner: the scheduler. Thread: every method is safe from any thread; deliveries come from the
// caller or from the gate's own thread.

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "engine/scheduler/queue/job.hpp"

namespace semantic::engine {

class save_gate {
  public:
    /// Gets the ends of answers, from any thread.
    class receiver {
      public:
        /// The answer may end now; last.saved says whether its memory is on disk, last.unsaved why
        /// it is not.
        virtual void deliver_end(const job_ptr& work, finished last) = 0;

      protected:
        ~receiver() = default;
    };
    /// `ends` outlives the gate.
    explicit save_gate(receiver& ends);
    /// Delivers everything still held: unsaved, as late.
    ~save_gate();

    void hold(job_ptr work, finished last, std::chrono::steady_clock::time_point until);
    /// Without patience everything held is delivered now, unsaved, and what comes at once: for an
    /// end whose time is up.
    void set_patient(bool is_patient);
    /// What became of a memory when its save, or its drop, ended.
    struct outcome {
        unsaved_reason unsaved = unsaved_reason::none;
        std::optional<written_bytes> written{};
    };
    /// The save of request `id` has ended. Delivers its answer unless the bound came first.
    void end_save(request_id id, const outcome& result);

  private:
    struct held {
        job_ptr work;
        finished last;
        std::chrono::steady_clock::time_point until;
    };
    void watch();

    receiver& ends_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::map<request_id, held> held_;
    bool is_patient_ = true;
    bool stopping_ = false;
    std::thread watcher_;
};

}  // namespace semantic::engine
