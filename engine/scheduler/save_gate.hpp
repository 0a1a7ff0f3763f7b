// SPDX-License-Identifier: Apache-2.0
#pragma once
// Holds back the last event of an answer until the answer's memory is on disk, so that a client
// that has seen the end may rely on it. Never longer than a bound, so that a slow disk cannot hold
// up an answer for ever; then the event says that the memory is not saved yet.
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
    /// Gets the last events of answers, on any thread.
    class receiver {
      public:
        /// Sends the client `last`; last.saved says whether the answer's memory is on disk,
        /// last.unsaved why it is not.
        virtual void deliver_end(const job_ptr& work, finished last) = 0;

      protected:
        ~receiver() = default;
    };
    /// `ends` outlives the gate.
    explicit save_gate(receiver& ends);
    /// Delivers all events that are still held, as unsaved.
    ~save_gate();

    /// Holds `last` until end_save() is called for the request, at most until `until`.
    void hold(job_ptr work, finished last, std::chrono::steady_clock::time_point until);
    /// Set to false when the server's time to stop is up: delivers all that is held, as unsaved,
    /// and from then on hold() delivers at once.
    void set_patient(bool is_patient);
    /// How a save, or the removal of a memory, has ended.
    struct outcome {
        unsaved_reason unsaved = unsaved_reason::none;
        std::optional<written_bytes> written{};
    };
    /// Delivers the held event of request `id`, whose save has ended. Does nothing if the bound
    /// came first.
    void end_save(request_id id, const outcome& result);

  private:
    struct held {
        job_ptr work;
        finished last;
        std::chrono::steady_clock::time_point until;
    };
    /// The loop of watcher_: delivers, as unsaved, the events whose bound has come.
    void watch();

    receiver& ends_;
    std::mutex mutex_;  // guards held_, is_patient_ and stopping_
    std::condition_variable changed_;
    std::map<request_id, held> held_;  // events that wait for their saves
    bool is_patient_ = true;           // see set_patient()
    bool stopping_ = false;
    std::thread watcher_;
};

}  // namespace semantic::engine
