// SPDX-License-Identifier: Apache-2.0
#pragma once
// Until when the server waits for an answer's events. The engine ends an answer at its deadline by
// itself, and counts that from where the request begins; a request that waits for its turn is
// notified, and its client may stay as long as it likes. Thread: not safe; owned by one answer.

#include <chrono>

#include "engine/types/generation.hpp"

namespace semantic::server {

class answer_clock {
  public:
    using clock = std::chrono::steady_clock;

    /// For a request that is sent to the engine now. `lateness`: how long after the engine's
    /// deadline the server waits for the last event before it gives up.
    answer_clock(clock::time_point deadline, clock::duration lateness,
                 clock::time_point now = clock::now())
        : limit_(deadline - now + lateness), until_(deadline + lateness) {}

    /// Adapts the time to an event: a request in the queue waits without a limit, an admitted one
    /// gets its time from its begin.
    void take(const engine::generation_event& event, clock::time_point now = clock::now()) {
        if (std::holds_alternative<engine::queued>(event)) until_ = now + queue_time_max;
        if (const auto* begun = std::get_if<engine::admitted>(&event))
            until_ = (begun->at == clock::time_point{} ? now : begun->at) + limit_;
    }
    /// When the server gives up.
    clock::time_point until() const { return until_; }

  private:
    /// Longer than any queue: each request in front of it ends by its own deadline.
    static constexpr std::chrono::hours queue_time_max{24};

    clock::duration limit_;
    clock::time_point until_;
};

}  // namespace semantic::server
