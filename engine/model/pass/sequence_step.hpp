// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a forward pass is given. Plain data.

#include <cstddef>
#include <span>

#include "storage/pool/block_pool.hpp"
#include "storage/types/ids.hpp"

namespace semantic::engine {

/// Waits for the layers of a prefix that is still being read.
class layer_gate {
  public:
    /// Blocks until the layer of the KV layout is there. Returns: false when there is no use in
    /// waiting. Called by the thread of the pass.
    virtual bool wait_for_layer(int layer) = 0;

  protected:
    ~layer_gate() = default;
};

/// What one sequence contributes to a step.
struct sequence_step {
    std::span<const storage::token_id> tokens;  // at absolute positions cache->token_count() ...
    storage::kv_sequence* cache =
        nullptr;  // Requires: reserved for the new tokens; advanced by forward(), drafts apart
    std::span<const int> logits_at;  // indices into `tokens`, ascending
    float* logits = nullptr;         // [logits_at.size(), vocabulary], written
    /// Of what the cache began with. Null: all of it is there.
    layer_gate* gate = nullptr;
    /// What the recurrent layers know of the tokens before `tokens`; null: there are none before,
    /// or no such layers. [model_config::state_bytes()], aligned to 64 bytes, read only.
    const std::byte* state = nullptr;
    /// The same of all up to the last of `tokens`: written by forward(), layer by layer. Needed
    /// where state_bytes() is not 0; apart from `state`, so that this is whole when a step fails.
    std::byte* next_state = nullptr;
    /// So many of `tokens`, the last ones, are a guess: their K and V are written, and the cache is
    /// not advanced over them. A caller that finds them right advances it; others are overwritten.
    /// `next_state` is that after all of `tokens`: transformer::rewind() makes it that after
    /// fewer. Requires: fewer than `tokens` has, and than a group of the wide tail; where there are
    /// recurrent layers, transformer_limits::draft_rows_max rows at most of sequences with drafts.
    int drafts = 0;
};

/// Thrown by forward() when a layer's wait was in vain. No sequence was changed.
struct layer_not_there {};

}  // namespace semantic::engine
