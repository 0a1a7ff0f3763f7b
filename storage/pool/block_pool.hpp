// SPDX-License-Identifier: Apache-2.0
#pragma once
// Fixed arena of KV frames: the hot tier's memory.
// Owner: engine. Thread: every method takes the pool's mutex, which is that of its budget; none
// does I/O. A kv_block may not outlive its pool. Invariant: every frame is free or held, asserted
// on every call. LIFO free list, so warm frames are reused first. The pools of several models may
// have one budget: then each has addresses for all of it, and frames as far as the others leave it.

#include <array>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "storage/pool/kv_layout.hpp"
#include "storage/pool/pool_budget.hpp"
#include "storage/pool/wide_tail.hpp"
#include "storage/types/errc.hpp"
#include "storage/types/ids.hpp"

namespace semantic::storage {

class block_pool {
  public:
    /// Maps `budget_bytes / layout.frame_bytes()` frames of anonymous memory (touched on first use,
    /// never more than the budget). Throws std::invalid_argument when not even one block (a frame
    /// for every layer) fits, naming both numbers.
    /// Throws std::system_error when the system refuses the addresses.
    block_pool(const kv_layout& layout, std::size_t budget_bytes);
    /// A pool that shares `budget` with other pools: together they have no more frames in use than
    /// it allows. Throws as above.
    block_pool(const kv_layout& layout, std::shared_ptr<pool_budget> budget);
    ~block_pool();
    block_pool(const block_pool&) = delete;
    block_pool& operator=(const block_pool&) = delete;

    /// Takes `count` frames or none. Contents are unspecified.
    /// Errors: pool_exhausted with both numbers (nothing was taken; the caller may evict and
    /// retry).
    result<std::vector<std::byte*>> allocate(std::size_t count);
    /// Requires: every frame came from allocate() of this pool and is held.
    void release(const std::vector<std::byte*>& frames) noexcept;

    /// Counts a recurrent state, whose memory is outside the arena, in the budget: as many bytes as
    /// layout().state_frames() frames have. Requires: the layout has states. Errors:
    /// pool_exhausted.
    result<void> count_state();
    /// Requires: one was counted.
    void uncount_state() noexcept;
    /// How many are counted.
    std::size_t state_count() const;

    const kv_layout& layout() const noexcept { return layout_; }
    /// The frames that the pool may have when no other pool of its budget has any.
    std::size_t frame_count() const noexcept { return frame_count_; }
    /// Frames that can be taken now.
    std::size_t free_count() const;
    /// Frames that are allocated, and those that the recurrent states count as.
    std::size_t held_count() const;
    /// Whether both pools have one budget, so that frames of one leave fewer to the other.
    bool shares_with(const block_pool& other) const noexcept { return budget_ == other.budget_; }
    pool_budget& budget() const noexcept { return *budget_; }

  private:
    friend class pool_budget;
    void check_invariant() const;
    std::size_t free_now() const;
    std::size_t give_back(std::size_t bytes) noexcept;
    kv_layout layout_;
    const std::shared_ptr<pool_budget> budget_;
    std::size_t frame_count_ = 0;
    std::byte* arena_ = nullptr;
    std::vector<std::byte*> free_;  // LIFO
    std::size_t untouched_ = 0;     // how many, at the front of free_, take no memory
    std::vector<bool> held_;        // by frame number; catches a double release
    // Frames that are allocated, and recurrent states that are counted.
    std::size_t held_total_ = 0;
    std::size_t states_ = 0;
};

/// 256 tokens of one part's layers: the unit that is shared, stored and evicted. Returns its frames
/// when the last owner lets go. A block whose `filled` tokens are all written and that more than
/// one owner holds is immutable.
class kv_block {
  public:
    /// Errors: pool_exhausted.
    static result<std::shared_ptr<kv_block>> make(block_pool& pool, kv_part part);
    /// Takes the frames of `count` blocks or none. Errors: pool_exhausted.
    static result<std::vector<std::shared_ptr<kv_block>>> make_many(block_pool& pool, kv_part part,
                                                                    std::size_t count);
    ~kv_block();
    kv_block(const kv_block&) = delete;
    kv_block& operator=(const kv_block&) = delete;

    kv_part part() const noexcept { return part_; }
    /// Requires: the layer is one of part().
    std::byte* frame(int layer) { return frames_[slot(layer)]; }
    const std::byte* frame(int layer) const { return frames_[slot(layer)]; }
    /// Copies the first `tokens` tokens of every layer from `from`. Requires: same layout and part.
    void copy_from(const kv_block& from, int tokens);

    /// The f16 rows of the group that the block ends inside of. Null where it ends with a group, or
    /// where the rows are lost: then a sequence that continues computes the group again.
    const std::shared_ptr<const wide_tail>& wide() const noexcept { return wide_; }
    /// The number of the block's tokens at which those rows end; 0 without them.
    int wide_end() const noexcept { return wide_end_; }
    /// Attaches the f16 rows of the group that the block's first `end` tokens end inside of.
    /// Requires: nobody else has the block yet, and no group ends at `end`.
    void keep_wide(std::shared_ptr<const wide_tail> rows, int end);
    /// The frames that the block holds, with those of its f16 rows.
    std::size_t frame_count() const noexcept;

  private:
    kv_block(block_pool& pool, kv_part part, std::vector<std::byte*> frames)
        : pool_(pool), part_(part), frames_(std::move(frames)) {}
    std::size_t slot(int layer) const {
        return static_cast<std::size_t>(pool_.layout().slot(layer));
    }
    block_pool& pool_;
    kv_part part_;
    std::vector<std::byte*> frames_;  // [frames_of_block()]
    std::shared_ptr<const wide_tail> wide_;
    int wide_end_ = 0;
};

/// The frames of one block, the same 256 tokens in all layers: those of full layers and those of
/// sliding ones. Either may be absent: what is only on disk, and sliding frames that no window
/// reaches any more. `sliding` is always null in a model without windows.
struct kv_block_parts {
    std::shared_ptr<const kv_block> full;
    std::shared_ptr<const kv_block> sliding;

    std::shared_ptr<const kv_block>& at(kv_part part) {
        return part == kv_part::full ? full : sliding;
    }
    const std::shared_ptr<const kv_block>& at(kv_part part) const {
        return part == kv_part::full ? full : sliding;
    }
    bool operator==(const kv_block_parts&) const = default;
};

/// The block table of one running sequence: shares its prefix, owns its tail. Of the sliding layers
/// it keeps the frames that the window reaches, and those that it has not shared yet, which may
/// exist nowhere else. Thread: confined to the thread that runs the sequence.
class kv_sequence {
  public:
    /// Starts after `tokens` tokens whose KV is in `prefix` (ceil(tokens / block_tokens) blocks,
    /// which are shared and never written). Where they end inside a group whose f16 rows the last
    /// block does not have, it starts at the beginning of that group instead: token_count() says
    /// where. Requires: sliding frames from layout().first_sliding_block(tokens) on.
    kv_sequence(block_pool& pool, std::vector<kv_block_parts> prefix, int tokens);

    /// Makes room for `tokens` tokens in all: new blocks, and a private copy of a partly filled
    /// shared tail. Errors: pool_exhausted (the sequence is unchanged and still valid).
    result<void> reserve(int tokens);
    /// Notes that the first `tokens` tokens are written in every layer. Releases shared sliding
    /// frames before the window. Requires: reserved.
    void advance(int tokens);
    /// Returns: all blocks, for the agent's record. The caller and the sequence then share them,
    /// and the next append copies a last block that is not full. Releases sliding frames before the
    /// window.
    std::vector<kv_block_parts> share();
    /// Shares all blocks except a last one that is not full, which stays the sequence's own.
    /// Requires: window_has_moved() where layers slide, else the window before that block may be
    /// incomplete.
    std::vector<kv_block_parts> share_whole_blocks();
    /// Gives up a last block that is shared and not full, with its f16 rows, so that reserve()
    /// needs no copy of it. The sequence goes back to the last block boundary, or to 0 where the
    /// window before that is gone, and the caller computes the tokens from there again, with the
    /// same result. Returns: whether there was such a block.
    bool drop_shared_tail();
    bool has_shared_tail() const noexcept { return tail_is_shared(); }
    /// Whether the window has left a block since the blocks were last shared.
    bool window_has_moved() const noexcept { return kept_from_ > kept_from_when_shared_; }

    int token_count() const noexcept { return tokens_; }
    /// The frames of the pool that the sequence holds, shared ones included.
    std::size_t frame_count() const noexcept;
    /// How many tokens can be written before the next reserve(), from the first one on.
    int reserved_tokens() const noexcept;
    /// Frames of one layer in block order, for attention and append; null where they were released.
    /// Valid until the next reserve(), advance() or share().
    const std::vector<std::byte*>& frames(int layer) const {
        return frames_[static_cast<std::size_t>(layer)];
    }
    /// The f16 rows of the group that contains position token_count(), from its first token on.
    /// Requires: reserved for more than token_count(), or a group that has begun.
    wide_rows group_rows(int layer) const { return rows_of(tail_, layer); }
    /// The f16 rows of the group after that one. advance() makes them the current group's once it
    /// reaches it. Requires: reserved for more than token_count().
    wide_rows next_group_rows(int layer) const { return rows_of(next_, layer); }

  private:
    std::vector<kv_block_parts> share_blocks(std::size_t count);
    void release_behind_window();
    void rebuild_frames(std::size_t from_block);
    bool tail_is_shared() const noexcept;
    using wide_parts = std::array<std::shared_ptr<wide_tail>, kv_parts.size()>;
    wide_rows rows_of(const wide_parts& parts, int layer) const;
    bool take_wide_tail(int tokens);
    bool may_write_wide() const noexcept;
    result<wide_parts> make_wide() const;
    result<void> reserve_wide();
    void keep_wide_tail();
    block_pool* pool_;
    std::vector<kv_block_parts> blocks_;
    std::vector<std::vector<std::byte*>> frames_;  // [layer][block]
    int tokens_ = 0;
    std::size_t owned_from_ =
        0;  // blocks before this index are shared; from it on they are ours to write
    // Block indices of sliding frames: what the window of the last whole block reaches, the same
    // when share() was last called, and up to where they are really released.
    std::size_t kept_from_ = 0, kept_from_when_shared_ = 0, released_to_ = 0;
    // By part; null in a part without layers, and until they are needed.
    wide_parts tail_, next_;
    bool wide_is_shared_ = false;  // tail_ is a block's, too, and not ours to write
};

}  // namespace semantic::storage
