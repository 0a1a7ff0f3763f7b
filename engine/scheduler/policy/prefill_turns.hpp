// SPDX-License-Identifier: Apache-2.0
#pragma once
// Whose prompt the next chunk is of. Tenants take turns, and within a tenant its prompts do, in the
// order of their ids: many prompts of one tenant, or long ones, delay another tenant's by a chunk
// each. Pure: a function of the chunks that ran. Thread: its owner's alone.

#include <cstdint>
#include <map>
#include <optional>
#include <span>

#include "engine/scheduler/policy/sequence_view.hpp"

namespace semantic::engine {

class prefill_turns {
  public:
    /// Of the tenant whose turn was longest ago, the prompt after that of its last chunk. Returns:
    /// an index into `running`; nothing where no prompt can be read now.
    std::optional<std::size_t> choose(std::span<const sequence_view> running) const;

    /// A chunk of `running[index]` runs. A tenant of which nothing runs is forgotten.
    void take(std::span<const sequence_view> running, std::size_t index);

  private:
    struct turn {
        std::uint64_t number = 0;  // of the tenant's last chunk; 0: it had none
        request_id last = 0;
    };
    turn turn_of(const storage::tenant_id& tenant) const;

    std::uint64_t chunks_ = 0;
    std::map<storage::tenant_id, turn> turns_;
};

}  // namespace semantic::engine
