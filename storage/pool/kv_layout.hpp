// SPDX-License-Identifier: Apache-2.0
#pragma once
// Geometry of a KV cache and every byte offset derived from it.
// A frame holds K and V of all KV heads for `block_tokens` tokens, of one layer or of several that
// fit into it together; all frames of a model have one size. Immutable after construction; safe to
// share between threads. Byte layout: storage/FORMAT.md.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "storage/pool/kv_recipe.hpp"

namespace semantic::storage {

struct kv_layer {
    int kv_heads = 0;
    int k_dim = 0;   // elements of a key of one head
    int v_dim = 0;   // elements of a value of one head
    int window = 0;  // tokens a query sees, itself included; 0 means all
    /// A value is the first v_dim elements of its key, as in latent attention; nothing is stored
    /// for it apart.
    bool values_in_keys = false;
    bool operator==(const kv_layer&) const = default;
};

/// The two groups of layers whose blocks are shared, stored and evicted separately: layers that see
/// every token, and layers that see a window. `state` is used for files of recurrent states only.
enum class kv_part { full, sliding, state };
inline constexpr std::array kv_parts{kv_part::full, kv_part::sliding};

/// Where K (or V) of a layer lies inside a frame. Offsets and sizes in bytes. Values inside keys
/// have the keys' region, with a smaller dim.
struct kv_region {
    int heads = 0;
    int dim = 0;                // elements that count; a row may have padding after them
    int bits = 16;              // of an element
    bool rotated = false;       // kv_form::rotated
    bool shaped = false;        // kv_form::shaped
    int groups = 0;             // scales and biases a row; 0 at 16 bit
    std::size_t row_bytes = 0;  // one token of one head, packed
    std::size_t weights = 0;    // [heads, block_tokens, row_bytes]
    std::size_t scales = 0;     // [heads, block_tokens, groups] f16
    std::size_t biases = 0;     // [heads, block_tokens, groups] f16
    bool operator==(const kv_region&) const = default;

    std::size_t row_at(int block_tokens, int head, int token) const {
        return weights + (static_cast<std::size_t>(head) * static_cast<std::size_t>(block_tokens) +
                          static_cast<std::size_t>(token)) *
                             row_bytes;
    }
    /// Byte offset of a row's first scale; its first bias is `biases - scales` further on.
    std::size_t scale_at(int block_tokens, int head, int token) const {
        return scales + (static_cast<std::size_t>(head) * static_cast<std::size_t>(block_tokens) +
                         static_cast<std::size_t>(token)) *
                            static_cast<std::size_t>(groups) * 2;
    }
};

/// The position of the f16 rows of a layer's wide tail (kv_recipe::wide_tail): keys [kv_heads,
/// rows, k_dim], then values in the same order.
struct wide_place {
    std::size_t frame = 0;   // among the frames of its part's wide tail
    std::size_t at = 0;      // offset of the keys
    std::size_t values = 0;  // of the values
    std::size_t end = 0;
    bool operator==(const wide_place&) const = default;
};

class kv_layout {
  public:
    /// `state_bytes`: size of one recurrent state of the model; 0 where it has no layers with
    /// recurrent state.
    /// Requires: at least one layer, positive sizes, bits in {4, 5, 6, 8, 16} or, of keys, 7, dims
    /// that are multiples of the group size unless bits is 16, values inside keys no longer than
    /// these and kept alike, a wide tail only of rotated keys and values, by a number of tokens
    /// that divides a block and whose f16 rows a frame has room for. Throws std::invalid_argument
    /// naming the value otherwise.
    kv_layout(std::vector<kv_layer> layers, kv_recipe recipe, int block_tokens = 256,
              std::size_t state_bytes = 0);

    int layer_count() const noexcept { return static_cast<int>(layers_.size()); }
    int block_tokens() const noexcept { return block_tokens_; }
    const kv_recipe& recipe() const noexcept { return recipe_; }
    const kv_layer& layer(int index) const { return layers_[static_cast<std::size_t>(index)]; }
    const kv_region& k(int layer) const { return regions_[static_cast<std::size_t>(layer)][0]; }
    const kv_region& v(int layer) const { return regions_[static_cast<std::size_t>(layer)][1]; }
    /// The layer's regions of its frame: K and V, or K alone where values lie inside the keys.
    std::span<const kv_region> stored(int index) const {
        return std::span(regions_[static_cast<std::size_t>(index)])
            .first(layer(index).values_in_keys ? 1 : 2);
    }
    /// Bytes of one frame, a multiple of 64: the largest layer's need.
    std::size_t frame_bytes() const noexcept { return frame_bytes_; }
    /// Bytes of one recurrent state; 0: the model has no layers with recurrent state.
    std::size_t state_bytes() const noexcept { return state_bytes_; }
    bool has_states() const noexcept { return state_bytes_ > 0; }
    /// Returns: how many frames one recurrent state counts as in the pool's budget.
    std::size_t state_frames() const noexcept {
        return has_states() ? (state_bytes_ + frame_bytes_ - 1) / frame_bytes_ : 0;
    }
    /// Bytes that one more token costs over all layers, windows ignored.
    std::size_t bytes_per_token() const noexcept { return bytes_per_token_; }

    /// The layers of a part, ascending; may be empty.
    const std::vector<int>& layers(kv_part part) const {
        return part_layers_[static_cast<std::size_t>(part)];
    }
    /// The index of a layer's frame in its part's blocks.
    int slot(int layer) const { return slots_[static_cast<std::size_t>(layer)]; }
    bool slides() const noexcept { return !layers(kv_part::sliding).empty(); }
    /// Returns: the number of the first block whose sliding frames a query at position `tokens` or
    /// later can see. A query may be computed again from the beginning of its group, so that
    /// position counts. Requires: slides().
    int first_sliding_block(int tokens) const;

    bool has_wide_tail() const noexcept { return recipe_.wide_tail > 0; }
    /// Returns: the first token of the group that position `tokens` is in; `tokens` itself where
    /// the recipe has no wide tail.
    int group_start(int tokens) const noexcept {
        return has_wide_tail() ? tokens - tokens % recipe_.wide_tail : tokens;
    }
    const wide_place& wide(int layer) const { return wide_[static_cast<std::size_t>(layer)]; }
    /// Frames of a part's wide tail.
    std::size_t wide_frames(kv_part part) const {
        return wide_frames_[static_cast<std::size_t>(part)];
    }
    /// Those of both parts.
    std::size_t wide_frames() const noexcept { return wide_frames_[0] + wide_frames_[1]; }

    /// Returns: the most frames that a conversation needs while it grows to `tokens` tokens in
    /// steps of at most `chunk_tokens`: every block of the full layers; of the sliding layers the
    /// blocks that the window and a step reach; its wide tail and its recurrent state, and while it
    /// grows a second one of each.
    std::size_t frames_for(int tokens, int chunk_tokens) const;
    /// Returns: the longest conversation, in tokens, that `frames` frames hold, in whole blocks; at
    /// most up to the end of the block that `tokens_max` falls into.
    int tokens_in(std::size_t frames, int chunk_tokens, int tokens_max) const;
    /// Returns: bytes of K, V and a recurrent state of a conversation of `tokens` tokens. Sliding
    /// layers count their window only; unused space of the last block does not count.
    std::uint64_t bytes_for(int tokens) const;
    bool operator==(const kv_layout&) const = default;

  private:
    void place_wide_tails();
    std::vector<kv_layer> layers_;
    kv_recipe recipe_;
    int block_tokens_;
    std::vector<std::array<kv_region, 2>> regions_;  // [layer][K, V]
    // By part: full, sliding.
    std::array<std::vector<int>, 2> part_layers_;
    std::vector<int> slots_;                    // [layer]
    std::vector<wide_place> wide_;              // [layer]; empty without wide tail
    std::array<std::size_t, 2> wide_frames_{};  // by part
    int window_ = 0;                            // the widest of the sliding layers
    std::size_t frame_bytes_ = 0;
    std::size_t bytes_per_token_ = 0;
    std::size_t state_bytes_ = 0;
};

}  // namespace semantic::storage
