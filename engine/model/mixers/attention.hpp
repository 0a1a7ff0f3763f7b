// SPDX-License-Identifier: Apache-2.0
#pragma once
// Grouped-query attention of a step's rows over the packed K and V of their sequences.
// Owner: transformer. Thread: run() is called by one thread at a time and uses the arena's threads.
//
// Work is cut into tiles: some tokens of a sequence times the query heads of one KV head. A tile
// goes through the frames (blocks of K and V) that its tokens see. With few tiles the frames of a
// tile are shared out between threads ("split").
//
// Exactness. The result of a row is: for every frame that it sees, in order, the softmax state
// (maximum, sum, output) of that frame alone, merged into the state so far. Whole tiles do that
// inside the kernel; split tiles compute every frame into an empty state of its own and merge
// afterwards in the same order (merging into an empty state changes nothing). With a wide tail the
// frames end where the row's group of tokens begins, and the group's f16 rows come last, like one
// more frame. So the bits depend neither on tiles nor on splits, threads or chunks.
//
// Source: FlashAttention-2, arXiv:2307.08691, split over the keys as in Flash-Decoding; grouped
// queries, arXiv:2305.13245.

#include <cstddef>
#include <span>
#include <vector>

#include "engine/kernels/kernels.hpp"
#include "engine/kernels/task_runner.hpp"
#include "engine/model/heads/key_means.hpp"
#include "engine/model/heads/step_part.hpp"
#include "engine/model/heads/wide_store.hpp"
#include "engine/model/weights/aligned_buffer.hpp"
#include "storage/pool/block_pool.hpp"
#include "storage/pool/kv_layout.hpp"

namespace semantic::engine {

/// The queries of a step after rope, ordered by KV head, then by row, so that a tile's queries are
/// contiguous.
class query_rows {
  public:
    query_rows(int kv_heads, int group, int dim, int rows_max, bool quantized);

    /// The queries of row `row` that share a KV head. Shape: [group, dim].
    float* at(int kv_head, int row) { return values_.data() + offset(kv_head, row); }
    /// Quantises the queries of at(kv_head, row), which are complete now. Does nothing if keys are
    /// stored as f16.
    void quantize(const kernel_table& kernels, int kv_head, int row);
    /// Fills the queries of `block`, from row `row` on.
    void view(int kv_head, int row, attention_block& block) const;

    int group() const noexcept { return group_; }
    int dim() const noexcept { return dim_; }

  private:
    std::size_t offset(int kv_head, int row) const {
        return (static_cast<std::size_t>(kv_head) * static_cast<std::size_t>(rows_max_) +
                static_cast<std::size_t>(row)) *
               static_cast<std::size_t>(group_) * static_cast<std::size_t>(dim_);
    }
    int group_, dim_, rows_max_;
    bool quantized_;
    aligned_buffer<float> values_;   // [kv_heads, rows_max, group, dim]
    aligned_buffer<std::int8_t> q_;  // the same, quantised
    aligned_buffer<float> scales_;   // [kv_heads, rows_max, group, dim / 64]
    aligned_buffer<float> sums_;     // as scales_
};

class attention {
  public:
    /// For all layers that have heads and dims as `layer`; windows may differ. `group`: query heads
    /// of a KV head. `scale`: factor of scores. `means`: those that were subtracted from keys;
    /// null: none; outlives this.
    attention(const kernel_table& kernels, const task_runner& tasks,
              const storage::kv_layout& layout, int layer, int group, double scale, int rows_max,
              const key_means* means, wide_store& wide);

    /// out[row, head, d] = softmax(scale * q·K^T) V. `sinks`: for each head the score of a virtual
    /// token that every query sees and that has no value; may be empty. Shape: out [rows, kv_heads
    /// * group, v_dim].
    void run(int layer, std::span<const attention_span> spans, const query_rows& queries,
             std::span<const float> sinks, float* out);

  private:
    struct tile {
        const attention_span* span;
        int kv_head;
        int first;   // its first token, an index into the span
        int tokens;  // its number of tokens
        int frame_begin, frame_end;
        int end;  // frame_end, or with a wide tail one more: the tail counts as a last frame
        int unit_begin = 0, unit_end = 0;  // its units in the current wave
    };
    struct unit {  // one frame of one tile
        int tile;
        int frame;
    };
    struct place {  // a frame of a tile, or none
        const tile* owner = nullptr;
        int frame = 0;
    };
    struct slot_scratch {             // of one thread
        std::vector<int> begin, end;  // [tile rows]
        aligned_buffer<float> kernel;
    };
    /// The softmax states of one tile's rows, so far or of one frame. Shape: states [tile rows],
    /// out [tile rows, v_dim].
    struct partial {
        softmax_state* states;
        float* out;
    };
    /// Memory for `count` partials of `rows` rows.
    class partial_store {
      public:
        partial_store(int count, int rows, int v_dim);
        partial at(int index) { return at(index, rows_); }
        /// A partial of `rows` rows, by its index: the store's memory divided into more partials of
        /// fewer rows each.
        partial at(int index, std::size_t rows);
        /// How many partials of `rows` rows the memory has room for.
        std::size_t room_for(std::size_t rows) const { return states_.size() / rows; }

      private:
        std::size_t rows_, v_dim_;
        std::vector<softmax_state> states_;
        aligned_buffer<float> out_;
    };

    /// Fills tiles_, the longest first.
    void cut_into_tiles(int layer, std::span<const attention_span> spans);
    /// Whether there are too few tiles for the threads, and enough work to split.
    bool worth_splitting() const;
    void run_whole(int layer, const query_rows& queries, std::span<const float> sinks, float* out);
    /// Computes each frame of a tile as a unit of its own, in waves of as many as partials fit.
    void run_split(int layer, const query_rows& queries, std::span<const float> sinks, float* out);
    /// Computes the units of units_ and merges them into their tiles' states.
    void run_wave(int layer, const query_rows& queries, std::size_t piece_rows);
    void merge_pieces(const tile& t, partial target, std::size_t piece_rows);
    /// Sets the tile's states to those before any frame, without sinks.
    void clear(const tile& t, partial target) const;
    void start(int layer, const tile& t, const query_rows& queries, std::span<const float> sinks,
               partial target) const;
    /// Adds one frame, or the wide tail, to the states of a tile. `next`: the frame that this
    /// thread computes next, which is prefetched; none if not known.
    void attend_part(int layer, place at, place next, const query_rows& queries, partial target,
                     int slot);
    void attend_frame(int layer, place at, place next, const query_rows& queries, partial target,
                      int slot);
    void attend_wide(int layer, const tile& t, const query_rows& queries, partial target, int slot);
    void attend_group(int layer, const tile& t, int from, int to, const query_rows& queries,
                      partial target, int slot);
    int packed_end(int position) const;
    /// The first frame of tile `index`; none if there is no such tile.
    place first_place(int index) const;
    /// Divides the tile's sums and writes them to `out`.
    void finish(const tile& t, partial from, float* out) const;
    /// Multiply-adds of all tiles.
    double work() const;

    const kernel_table& kernels_;
    const task_runner& tasks_;
    const storage::kv_layout& layout_;
    int group_;
    int k_dim_, v_dim_, kv_heads_;  // of every layer that is run
    float scale_;
    const key_means* means_;
    wide_store& wide_;
    int tile_tokens_;
    std::vector<tile> tiles_;
    std::vector<unit> units_;  // [units_max], one wave
    std::vector<slot_scratch> slots_;
    partial_store running_;  // states so far: of whole tiles one a thread, of split ones one a tile
    partial_store pieces_;   // one for each unit of a wave
};

}  // namespace semantic::engine
