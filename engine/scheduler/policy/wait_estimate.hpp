// SPDX-License-Identifier: Apache-2.0
#pragma once
// Estimates how long a request will wait in the queue, from how long earlier requests took. Pure:
// no clock and no threads of its own. The estimate is only shown to clients; nothing is decided by
// it.

#include <chrono>
#include <cstddef>

#include "engine/types/generation.hpp"

namespace semantic::engine {

class wait_estimate {
  public:
    /// Takes in how long a request ran, from its admission to its end.
    void learn(double seconds);

    /// Seconds until a request gets a batch slot if `ahead` others wait before it and all `places`
    /// slots are taken. 0 until the first request has ended.
    double seconds(int ahead, int places) const;
    /// As seconds(), rounded up to whole seconds.
    std::chrono::seconds whole_seconds(int ahead, int places) const;

    /// The notice for the client of a request that arrives while `open` others have not ended.
    queued place_behind(std::size_t open, int places) const;
    /// The error for the client of such a request if at most `limit` requests may be open.
    failed overloaded(std::size_t limit, std::size_t open, int places) const;

  private:
    double mean_ = 0;     // moves a tenth of the way to each new one
    bool known_ = false;  // learn() was called
};

}  // namespace semantic::engine
