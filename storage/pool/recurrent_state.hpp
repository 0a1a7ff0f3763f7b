// SPDX-License-Identifier: Apache-2.0
#pragma once
// The memory of layers with recurrent state: one value of fixed size in place of keys and values of
// every token. Its bytes are opaque here; the model reads the state after token p and writes the
// one after a later token. A state whose sequence has shared it is immutable. Owner: a running
// sequence until it shares the state, then its holders together. Thread: one that writes, or any
// that read. Counted in the pool's budget; may not outlive its pool.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "storage/pool/block_pool.hpp"
#include "storage/types/errc.hpp"

namespace semantic::storage {

class recurrent_state {
  public:
    /// Memory for one state, aligned to 64 bytes, counted in the pool's budget. Contents are
    /// unspecified. Requires: the pool's layout has states. Errors: pool_exhausted.
    /// Throws std::bad_alloc.
    static result<std::shared_ptr<recurrent_state>> make(block_pool& pool);
    ~recurrent_state();
    recurrent_state(const recurrent_state&) = delete;
    recurrent_state& operator=(const recurrent_state&) = delete;

    /// The bytes of the state, layout().state_bytes() of them.
    std::span<std::byte> bytes() noexcept;
    std::span<const std::byte> bytes() const noexcept;
    /// How many frames the state counts as in the pool's budget.
    std::size_t frame_count() const noexcept { return pool_.layout().state_frames(); }

  private:
    explicit recurrent_state(block_pool& pool);
    struct free_aligned {
        void operator()(std::byte* memory) const noexcept;
    };
    block_pool& pool_;
    std::unique_ptr<std::byte, free_aligned> memory_;
};

using recurrent_ptr = std::shared_ptr<const recurrent_state>;

/// A position in a memory, and the state after the tokens before it: a sequence can continue there.
struct kept_state {
    std::uint32_t tokens = 0;  // before the place
    /// The state is at the end of a beginning that many agents share; kept as long as a later one.
    bool is_root = false;
    /// In RAM only: not saved until a longer version of the memory shows whether it is still
    /// needed.
    bool waits = false;
    recurrent_ptr state{};  // null: only on disk
    bool operator==(const kept_state&) const = default;
};

/// Returns: how many of the kept states have at most `tokens` tokens before them. Requires: `kept`
/// ascends.
std::size_t count_kept_within(std::span<const kept_state> kept, std::size_t tokens) noexcept;

/// The states of one running sequence: the one after its last token, and memory for the next one.
/// Empty where the layout has no states. Thread: confined to the thread that runs the sequence.
class live_state {
  public:
    /// `start`: the state after the sequence's first tokens; null: it begins with none.
    live_state(block_pool& pool, recurrent_ptr start) : pool_(&pool), current_(std::move(start)) {}

    /// Takes memory for the next state. Errors: pool_exhausted (nothing has changed).
    result<void> reserve();
    /// The state after the sequence's last token. Null: before the first token, which is a state of
    /// zeros.
    const std::byte* current() const noexcept {
        return current_ == nullptr ? nullptr : current_->bytes().data();
    }
    /// Where the next state is written; null where the layout has no states. Requires: reserved.
    std::byte* next() const noexcept { return next_ == nullptr ? nullptr : next_->bytes().data(); }
    /// Makes the next state, which the model has written, the current one. Requires: reserved.
    void advance();
    /// Returns: the current state, which is not written any more; null before the first token.
    recurrent_ptr share();
    /// Returns the memory for the next state to the pool.
    void drop_next() noexcept { next_.reset(); }

  private:
    block_pool* pool_;
    recurrent_ptr current_;
    std::shared_ptr<recurrent_state> own_;  // current_, where nobody else ever had it
    std::shared_ptr<recurrent_state> next_;
};

}  // namespace semantic::storage
