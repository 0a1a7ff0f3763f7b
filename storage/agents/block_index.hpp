// SPDX-License-Identifier: Apache-2.0
#pragma once
// The full blocks and recurrent states that agents have in the pool, by name, so that a sequence
// that computes or reads one again shares it. Owner: agent_index. Thread: not safe; the index's
// lock guards it.

#include <array>
#include <cstddef>
#include <memory>
#include <unordered_map>
#include <vector>

#include "storage/disk/block_format.hpp"
#include "storage/pool/block_pool.hpp"
#include "storage/pool/recurrent_state.hpp"
#include "storage/types/ids.hpp"

namespace semantic::storage {

using block_ptr = std::shared_ptr<const kv_block>;

class block_index {
  public:
    /// Returns: the part of the block, or null when nobody has it in the pool. Blocks of one name
    /// that differ in parent or token ids are different blocks.
    block_ptr find(const block_hash& name, const block_identity& identity, kv_part part) const;
    /// Returns: the same part of the same block where somebody has it, else `block`, which is found
    /// from now on.
    block_ptr adopt(const block_hash& name, const block_identity& identity, block_ptr block);
    /// The same for recurrent states: returns the state after the tokens of `identity`.
    recurrent_ptr find_state(const block_hash& name, const block_identity& identity) const;
    recurrent_ptr adopt_state(const block_hash& name, const block_identity& identity,
                              recurrent_ptr state);

  private:
    /// Weak references, so that the index keeps no frame in the pool. `parts` is indexed by
    /// kv_part; `parent` and `tokens` distinguish blocks whose names are equal by chance.
    struct entry {
        std::weak_ptr<const recurrent_state> state;
        std::array<std::weak_ptr<const kv_block>, kv_parts.size()> parts;
        block_hash parent;
        std::vector<token_id> tokens;
        bool is(const block_identity& identity) const;
    };
    entry& entry_of(const block_hash& name, const block_identity& identity);
    std::unordered_map<block_hash, entry> blocks_;
    // The size of the map at which entry_of() removes expired entries.
    std::size_t purge_at_ = 1024;
};

}  // namespace semantic::storage
