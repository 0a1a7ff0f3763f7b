// SPDX-License-Identifier: Apache-2.0
#pragma once
// One agent's memory as a value.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "storage/pool/block_pool.hpp"
#include "storage/pool/recurrent_state.hpp"
#include "storage/types/ids.hpp"
#include "storage/types/memory_policy.hpp"

namespace semantic::storage {

/// The end of one of an agent's answers in its memory: after its first `tokens` tokens and `rest`,
/// the bytes that were sampled but have no KV.
struct message_end {
    std::string id;  // as an agent's id: [A-Za-z0-9._:-]{1,128}
    std::uint32_t tokens = 0;
    std::string rest{};
    bool operator==(const message_end&) const = default;
};

constexpr std::size_t messages_max = 1024;
constexpr std::size_t message_rest_bytes_max = 1 << 16;

constexpr std::size_t kept_states_max = 256;

/// One agent's memory: immutable once published, shared between the index and the sequence that
/// extends the agent.
struct agent_state {
    agent_id id;
    std::vector<token_id> tokens{};  // exactly those whose KV exists, generated ones too
    std::string text{};              // the bytes that `tokens` spell
    std::vector<std::uint32_t>
        token_ends{};  // [tokens] end of token i in `text`, in bytes; never decreasing
    /// ceil(tokens / block_tokens) entries; null where a part is only on disk. Of the sliding
    /// layers only the frames that the window at the last token reaches stay in the pool once the
    /// rest is saved.
    std::vector<kv_block_parts> blocks{};
    std::chrono::system_clock::time_point created{};
    std::chrono::system_clock::time_point last_used{};
    /// Small facts that travel with the agent and are stored in its manifest (the day that its
    /// template was given, its last message id).
    std::map<std::string, std::string> notes{};
    /// Its answers that can be gone on from, the earliest first; at most `messages_max`, each
    /// within `tokens`.
    std::vector<message_end> messages{};
    /// Of a memory that was imported, or continues one: replaces the tenant's salt in the names of
    /// its blocks, so that no other agent ever finds them. Zero for KV that was computed here from
    /// the first token on.
    block_hash private_salt{};
    /// The positions from which a sequence can continue, ascending, each within `tokens`; at most
    /// `kept_states_max`. Empty where the layout has no states; else KV after the last of them is
    /// of no use yet.
    std::vector<kept_state> states{};
    /// How long the memory is to be kept. When a state is published, fields that its policy leaves
    /// out keep their former value.
    memory_policy policy{};

    bool is_private() const noexcept { return private_salt != block_hash{}; }
};

}  // namespace semantic::storage
