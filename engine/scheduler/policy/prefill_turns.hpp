// SPDX-License-Identifier: Apache-2.0
#pragma once
// Decides which prompt the next prefill chunk belongs to. Tenants take turns, and the prompts of a
// tenant take turns in the order of their ids. So however many or long the prompts of one tenant
// are, another tenant's prompt waits for one chunk at a time. Pure: a function of the chunks that
// ran. Thread: its owner's alone.

#include <cstdint>
#include <map>
#include <optional>
#include <span>

#include "engine/scheduler/policy/sequence_view.hpp"

namespace semantic::engine {

class prefill_turns {
  public:
    /// Chooses the tenant whose turn was longest ago, and of its prompts the one after that of its
    /// last chunk. Returns: an index into `running`; nothing if no prompt can be read now.
    std::optional<std::size_t> choose(std::span<const sequence_view> running) const;

    /// Notes that a chunk of `running[index]` runs now. Forgets tenants that have nothing running.
    void take(std::span<const sequence_view> running, std::size_t index);

  private:
    struct turn {
        std::uint64_t number = 0;  // of the tenant's last chunk; 0: it had none
        request_id last = 0;       // the request of that chunk
    };
    turn turn_of(const storage::tenant_id& tenant) const;

    std::uint64_t chunks_ = 0;  // that ran so far
    std::map<storage::tenant_id, turn> turns_;
};

}  // namespace semantic::engine
