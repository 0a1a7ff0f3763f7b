// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which blocks a state consists of: their names, what identifies each, and which of them a sequence
// needs. Pure: looks neither into a pool nor at a disk. Thread: immutable, safe from any.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "storage/disk/block_format.hpp"
#include "storage/pool/agent_state.hpp"
#include "storage/pool/kv_layout.hpp"
#include "storage/types/as_size.hpp"
#include "storage/types/ids.hpp"
#include "storage/types/kv_event_feed.hpp"

namespace semantic::storage {

using state_ptr = std::shared_ptr<const agent_state>;

/// What identifies one block of a state. Valid as long as the state.
struct block_place {
    block_hash name;
    block_identity identity;
    bool full = false;
};

/// One part of the block with this number.
struct block_part {
    std::size_t index;
    kv_part part;
};

struct frame_counts {
    std::uint64_t held = 0;
    std::uint64_t shared = 0;  // part of those held: somebody else has them too
    std::uint64_t states = 0;  // recurrent states; their frames are part of those held
};
/// What a state holds of the pool.
frame_counts frames_of(const agent_state& state);
/// What several states hold together: what they share counts once.
std::uint64_t frames_of(std::span<const state_ptr> states);

class state_blocks {
  public:
    /// `layout` must live as long. `tenant_salt`: of the default tenant.
    state_blocks(const block_hash& fingerprint, std::string tenant_salt, const kv_layout& layout)
        : fingerprint_(fingerprint), tenant_salt_(std::move(tenant_salt)), layout_(layout) {}

    const block_hash& fingerprint() const noexcept { return fingerprint_; }
    const kv_layout& layout() const noexcept { return layout_; }
    std::size_t block_tokens() const { return as_size(layout_.block_tokens()); }
    /// Returns: how many blocks hold so many tokens.
    std::size_t count_for(std::size_t tokens) const {
        return (tokens + block_tokens() - 1) / block_tokens();
    }

    /// Returns: the names of the blocks of a state, in order. A name is a hash of fingerprint, salt
    /// and all tokens up to the end of the block.
    std::vector<block_hash> names_of(const agent_state& state) const {
        return names_of(salt_of(state), state.tokens);
    }
    std::vector<block_hash> names_of(std::string_view salt, std::span<const token_id> tokens) const;
    /// The names of the states that `state` keeps, in their order. Requires: as place().
    std::vector<block_hash> kept_names_of(const agent_state& state,
                                          const std::vector<block_hash>& names) const;
    /// Returns: what identifies the recurrent state after the first `tokens` tokens of `state`.
    /// Requires: as place(), and 1 to state.tokens.size() tokens.
    block_place kept_place(const agent_state& state, const std::vector<block_hash>& names,
                           std::size_t tokens) const;
    /// Returns: what identifies block number `index` of the state. Requires: `names` are those of
    /// `state`.
    block_place place(const agent_state& state, const std::vector<block_hash>& names,
                      std::size_t index) const;

    /// Returns: the full blocks of a state for whose numbers `is_stored` returns true, consecutive
    /// ones joined to a run, without the model's name. None of a private state, whose blocks no
    /// other prompt can find. Requires: `names` are those of `state`.
    std::vector<blocks_stored> runs(const agent_state& state, const std::vector<block_hash>& names,
                                    const std::function<bool(std::size_t)>& is_stored) const;

    /// Returns: the first block whose sliding frames a sequence needs to continue after `tokens`
    /// tokens.
    std::size_t window_start(std::size_t tokens) const;
    /// Returns: what a sequence needs to continue after `tokens` tokens. The window comes first,
    /// from its end: a lost frame there shortens the prefix, and then fewer full layers are needed.
    std::vector<block_part> needed_for(int tokens) const;

    /// Returns: the number of tokens of `state` after which a sequence can continue: all of them,
    /// or those before the last position for which the agent keeps a recurrent state.
    std::size_t resumable_tokens(const agent_state& state) const;

    /// Whether any block or recurrent state is in the pool.
    static bool any_hot(const agent_state& state);
    /// Whether all that the state's next token needs is in the pool.
    bool all_hot(const agent_state& state) const;

    /// Returns: the secret salt of the agent's tenant, from which the names of its files are
    /// hashed. Valid as long as `id`.
    std::string_view salt_of(const agent_id& id) const;
    /// Returns: the salt of the names of the state's blocks: its private one, if it has one, else
    /// its tenant's. Valid as long as `state`.
    std::string_view salt_of(const agent_state& state) const;
    /// Returns: the path, relative to the cache directory, of this model's manifest of the agent.
    std::string manifest_of(const agent_id& id) const { return manifest_of(id, fingerprint_); }
    /// Returns: the path, relative to the cache directory, of the agent's manifest for the model
    /// with this fingerprint.
    std::string manifest_of(const agent_id& id, const block_hash& fingerprint) const;

  private:
    block_place place(const agent_state& state, const std::vector<block_hash>& names,
                      std::size_t begin, std::size_t end) const;
    const block_hash fingerprint_;
    const std::string tenant_salt_;
    const kv_layout& layout_;
};

}  // namespace semantic::storage
