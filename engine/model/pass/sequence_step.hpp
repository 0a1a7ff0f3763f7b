// SPDX-License-Identifier: Apache-2.0
#pragma once
// The input of a forward pass. Plain data.

#include <cstddef>
#include <span>

#include "storage/pool/block_pool.hpp"
#include "storage/types/ids.hpp"

namespace semantic::engine {

/// Waits for the layers of a prefix that is still being read.
class layer_gate {
  public:
    /// Blocks until the layer (counted as in the KV layout) has been read. Returns: false if the
    /// wait is given up. Called by the thread of the pass.
    virtual bool wait_for_layer(int layer) = 0;

  protected:
    ~layer_gate() = default;
};

/// The tokens of one sequence in a step.
struct sequence_step {
    std::span<const storage::token_id> tokens;  // at absolute positions cache->token_count() ...
    storage::kv_sequence* cache =
        nullptr;  // Requires: reserved for the new tokens; advanced by forward(), drafts apart
    std::span<const int> logits_at;  // indices into `tokens`, ascending
    float* logits = nullptr;         // [logits_at.size(), vocabulary], written
    /// Waits for the layers of the cached prefix that is still being read; null: all of it is in
    /// RAM.
    layer_gate* gate = nullptr;
    /// The state of the recurrent layers before `tokens`, [model_config::state_bytes()], aligned to
    /// 64 bytes, only read; null: there are no tokens before, or no recurrent layers.
    const std::byte* state = nullptr;
    /// Where forward() writes the state after `tokens`, layer by layer. Needed if state_bytes() is
    /// not 0. Must not be `state`, which stays valid if a step fails.
    std::byte* next_state = nullptr;
    /// The last so many of `tokens` are a draft (a guess): their K and V are written, but the cache
    /// is not advanced over them. A caller that finds them right advances it; otherwise they are
    /// overwritten later. `next_state` is the state after all of `tokens`; transformer::rewind()
    /// changes it to that after fewer. Requires: fewer than `tokens` has, and fewer than a group of
    /// the wide tail; with recurrent layers at most transformer_limits::draft_rows_max rows of
    /// sequences with drafts.
    int drafts = 0;
};

/// Thrown by forward() when a layer_gate gives up. No sequence has changed.
struct layer_not_there {};

}  // namespace semantic::engine
