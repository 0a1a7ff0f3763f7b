// SPDX-License-Identifier: Apache-2.0
#pragma once
// Finds the stored texts that have the longest common prefix with a prompt. Owner: agent_index.
// Thread: not safe; the index's lock guards it.
//
// A tenant's texts are kept in byte order, each under a pointer: the index costs one tree node an
// agent. In that order a text's common prefix with a prompt only shrinks with the distance from the
// position where the prompt would be inserted. The longest of all is therefore one of the two
// neighbours of that position: it is found exactly, with about log2(agents) comparisons.

#include <cstddef>
#include <memory>
#include <set>
#include <string_view>
#include <vector>

#include "storage/pool/agent_state.hpp"

namespace semantic::storage {

/// Length of the common prefix, in bytes.
std::size_t common_prefix_bytes(std::string_view a, std::string_view b);

struct prefix_neighbour {
    std::shared_ptr<const agent_state> state;
    std::size_t common_bytes = 0;  // of its text and the prompt; at least 1
};

class prefix_index {
  public:
    /// Pointer to where the owner keeps an agent's newest state. The state there must keep its
    /// address, id, text and private_salt until it is removed here; its other fields may change.
    using slot = const std::shared_ptr<const agent_state>*;

    /// Adds the agent's text. A private state is left out, since no other agent's prompt may
    /// continue from it.
    void add(slot agent) {
        if (!(*agent)->is_private()) texts_.insert(agent);
    }
    void remove(slot agent) { texts_.erase(agent); }
    std::size_t agent_count() const noexcept { return texts_.size(); }

    /// Returns: the tenant's `count_max` agents whose text has the longest common prefix with
    /// `text`, the longest first; fewer where fewer have at least one byte in common.
    std::vector<prefix_neighbour> closest(const tenant_id& tenant, std::string_view text,
                                          std::size_t count_max) const;

  private:
    /// Where a prompt would be inserted among the texts.
    struct place {
        const tenant_id& tenant;
        std::string_view text;
    };
    struct by_text {
        using is_transparent = void;
        bool operator()(slot a, slot b) const;
        bool operator()(slot a, const place& b) const;
    };
    std::set<slot, by_text> texts_;
};

}  // namespace semantic::storage
