// SPDX-License-Identifier: Apache-2.0
#pragma once
// Computes how many conversations fit into a block pool. Pure arithmetic over a model's geometry.
// Thread: any.

#include <cstdint>

#include "engine/model/config/model_config.hpp"
#include "storage/pool/kv_layout.hpp"

namespace semantic::engine {

/// Pool frames of a conversation of `tokens` tokens: all blocks of the layers that attend to all
/// tokens, and for sliding layers as many blocks as the widest window can touch. Requires: tokens >
/// 0.
std::uint64_t frames_of_conversation(const storage::kv_layout& layout, int tokens);

/// Bytes of recurrent states that an idle conversation keeps: the newest two, because a prompt may
/// diverge within its last turn. 0 for models without recurrent layers.
std::uint64_t kept_state_bytes(const model_config& config);

/// How many conversations of `tokens` tokens fit into `pool_bytes` if they share nothing.
/// `state_bytes`: of each one's recurrent states, in addition to its K and V.
std::uint64_t conversations_in(const storage::kv_layout& layout, int tokens,
                               std::uint64_t pool_bytes, std::uint64_t state_bytes = 0);

/// Bytes of K and V that one more token adds when all sliding windows are full.
std::uint64_t lasting_bytes_per_token(const storage::kv_layout& layout);

/// Bytes of frames that a token takes over all layers, windows ignored:
/// kv_layout::bytes_per_token() and the unused bytes at the ends of frames.
std::uint64_t pool_bytes_per_token(const storage::kv_layout& layout);

/// Bytes of frames that one more token adds when all sliding windows are full.
std::uint64_t lasting_pool_bytes_per_token(const storage::kv_layout& layout);

}  // namespace semantic::engine
