// SPDX-License-Identifier: Apache-2.0
#pragma once
// A sequence of an offline model: its K and V and, where the model has recurrent layers, their
// state after its tokens. Owner: a command. Thread: one.

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "engine/model/transformer.hpp"
#include "engine/model/weights/aligned_buffer.hpp"
#include "storage/pool/block_pool.hpp"

namespace semantic::eval {

class offline_sequence {
  public:
    /// Begins after `tokens` tokens with the K and V `blocks` and the state `state`, which is
    /// copied. Requires: `state` has state_bytes bytes, or none where `tokens` is 0.
    offline_sequence(storage::block_pool& pool, std::vector<storage::kv_block_parts> blocks,
                     int tokens, std::size_t state_bytes, std::span<const std::byte> state = {})
        : kv_(pool, std::move(blocks), tokens), state_(state_bytes), next_state_(state_bytes) {
        std::copy(state.begin(), state.end(), state_.data());
    }

    storage::kv_sequence& kv() noexcept { return kv_; }
    int token_count() const noexcept { return kv_.token_count(); }
    /// The recurrent state after all tokens so far; empty where the model has no recurrent layers.
    std::span<const std::byte> state() const noexcept { return {state_.data(), state_.count()}; }

    /// A step of these tokens, for offline_model::step(); call finish_step() after it. `logits_at`:
    /// indices into `tokens`. `logits`: room for their logits.
    engine::sequence_step begin_step(std::span<const storage::token_id> tokens,
                                     std::span<const int> logits_at, float* logits) {
        engine::sequence_step step{tokens, &kv_, logits_at, logits};
        if (token_count() > 0) step.state = state_.data();
        step.next_state = next_state_.data();
        return step;
    }
    /// Takes the state that the step has computed.
    void finish_step() noexcept { std::swap(state_, next_state_); }

  private:
    storage::kv_sequence kv_;
    engine::aligned_buffer<std::byte> state_, next_state_;
};

}  // namespace semantic::eval
