// SPDX-License-Identifier: Apache-2.0
#pragma once
// How many conversations a block pool holds. Pure arithmetic over a model's geometry. Thread: any.

#include <cstdint>

#include "engine/model/config/model_config.hpp"
#include "storage/pool/kv_layout.hpp"

namespace semantic::engine {

/// Frames of a conversation of `tokens` tokens: every block of the layers that see all of it, and
/// of the sliding ones the blocks that the widest window reaches wherever its ends fall. Requires:
/// tokens > 0.
std::uint64_t frames_of_conversation(const storage::kv_layout& layout, int tokens);

/// Bytes of recurrent states that an idle conversation keeps: the newest two, since a prompt may
/// part from it within its last turn. 0 where all layers attend.
std::uint64_t kept_state_bytes(const model_config& config);

/// The number of conversations of `tokens` tokens that share nothing and fit into `pool_bytes`,
/// each with `state_bytes` in addition to its K and V.
std::uint64_t conversations_in(const storage::kv_layout& layout, int tokens,
                               std::uint64_t pool_bytes, std::uint64_t state_bytes = 0);

/// Bytes that one more token costs once every window is full.
std::uint64_t lasting_bytes_per_token(const storage::kv_layout& layout);

/// Bytes of frames that a token takes over all layers, windows ignored: kv_layout's
/// bytes_per_token() and what its frames leave unused.
std::uint64_t pool_bytes_per_token(const storage::kv_layout& layout);

/// Bytes of frames that one more token takes once every window is full.
std::uint64_t lasting_pool_bytes_per_token(const storage::kv_layout& layout);

}  // namespace semantic::engine
