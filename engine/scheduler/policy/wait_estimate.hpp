// SPDX-License-Identifier: Apache-2.0
#pragma once
// How long a request will wait for its turn, from how long those before it took. Pure: no clock and
// no threads of its own. Only ever said to clients; nothing is decided by it.

#include <chrono>
#include <cstddef>

#include "engine/types/generation.hpp"

namespace semantic::engine {

class wait_estimate {
  public:
    /// A request ran for so long, from its admission to its end.
    void learn(double seconds);

    /// Seconds until a request has its turn when `ahead` others wait before it and all `places` are
    /// taken. 0 until a request has ended.
    double seconds(int ahead, int places) const;
    /// The same, rounded up.
    std::chrono::seconds whole_seconds(int ahead, int places) const;

    /// The notice for a request that arrives while `open` others have not ended.
    queued place_behind(std::size_t open, int places) const;
    /// The error for that request where only `limit` may be open.
    failed overloaded(std::size_t limit, std::size_t open, int places) const;

  private:
    double mean_ = 0;  // moves a tenth of the way to each new one
    bool known_ = false;
};

}  // namespace semantic::engine
