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
    /// Goes on after `tokens` tokens whose K and V are `blocks` and whose state is `state`, which
    /// is copied. Requires: `state` has state_bytes bytes, or none where `tokens` is 0.
    offline_sequence(storage::block_pool& pool, std::vector<storage::kv_block_parts> blocks,
                     int tokens, std::size_t state_bytes, std::span<const std::byte> state = {})
        : kv_(pool, std::move(blocks), tokens), state_(state_bytes), next_state_(state_bytes) {
        std::copy(state.begin(), state.end(), state_.data());
    }

    storage::kv_sequence& kv() noexcept { return kv_; }
    int token_count() const noexcept { return kv_.token_count(); }
    /// After all tokens so far; of no bytes where the model has no recurrent layers.
    std::span<const std::byte> state() const noexcept { return {state_.data(), state_.count()}; }

    /// A step of these tokens; finish_step() follows when it was run.
    engine::sequence_step begin_step(std::span<const storage::token_id> tokens,
                                     std::span<const int> logits_at, float* logits) {
        engine::sequence_step step{tokens, &kv_, logits_at, logits};
        if (token_count() > 0) step.state = state_.data();
        step.next_state = next_state_.data();
        return step;
    }
    void finish_step() noexcept { std::swap(state_, next_state_); }

  private:
    storage::kv_sequence kv_;
    engine::aligned_buffer<std::byte> state_, next_state_;
};

}  // namespace semantic::eval
