// SPDX-License-Identifier: Apache-2.0
#pragma once
// Grouped-query attention of a step's rows over the packed K and V of their sequences.
// Owner: transformer. Thread: run() is called by one thread at a time and uses the arena's threads.
//
// Exactness. The result of a row is: for every frame that it sees, in order, (m, l, o) of that
// frame alone, merged into the state so far. Whole tiles do that inside the kernel; split tiles
// compute every frame into an empty state of its own (which merging into an empty state leaves as
// it is) and merge afterwards in the same order. With a wide tail the frames end where the row's
// group begins, and the group's f16 rows come last, like one more frame. So the bits depend neither
// on tiles nor on splits, threads or chunks.
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

/// The queries of a step after rope. Rows that follow each other in one sequence lie side by side
/// for each KV head, so that a tile of tokens times the heads of a group is one run of query rows.
class query_rows {
  public:
    query_rows(int kv_heads, int group, int dim, int rows_max, bool quantized);

    /// Row `row`'s queries that share a KV head. Shape: [group, dim].
    float* at(int kv_head, int row) { return values_.data() + offset(kv_head, row); }
    /// Quantises what at() gave. Does nothing when the cache is f16.
    void quantize(const kernel_table& kernels, int kv_head, int row);
    /// Fills the query side of `block` for rows from `row` on.
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
    aligned_buffer<float> sums_;
};

class attention {
  public:
    /// `means`: outlives this; null where keys are stored with theirs. Layers whose heads and dims
    /// are those of `layer` are run; windows may differ.
    attention(const kernel_table& kernels, const task_runner& tasks,
              const storage::kv_layout& layout, int layer, int group, double scale, int rows_max,
              const key_means* means, wide_store& wide);

    /// `sinks`: for every head the score of a token that is always seen and gives nothing; or
    /// empty. out[row, head, d] = softmax(scale * q·K^T) V. Shape: out [rows, kv_heads * group,
    /// v_dim].
    void run(int layer, std::span<const attention_span> spans, const query_rows& queries,
             std::span<const float> sinks, float* out);

  private:
    struct tile {
        const attention_span* span;
        int kv_head;
        int first;   // token of the span
        int tokens;  // of the span in this tile
        int frame_begin, frame_end;
        int end;  // frame_end, or one more: the wide tails of its tokens, in the place of a frame
        int unit_begin = 0, unit_end = 0;  // of a wave of units
    };
    struct unit {  // one frame of one tile
        int tile;
        int frame;
    };
    struct place {  // a frame of a tile, or none
        const tile* owner = nullptr;
        int frame = 0;
    };
    struct slot_scratch {
        std::vector<int> begin, end;  // [tile rows]
        aligned_buffer<float> kernel;
    };
    /// Running or partial states of one tile. Shape: states [tile rows], out [tile rows, v_dim].
    struct partial {
        softmax_state* states;
        float* out;
    };
    class partial_store {
      public:
        partial_store(int count, int rows, int v_dim);
        partial at(int index) { return at(index, rows_); }
        /// Of as many as there is room for when each has fewer rows.
        partial at(int index, std::size_t rows);
        std::size_t room_for(std::size_t rows) const { return states_.size() / rows; }

      private:
        std::size_t rows_, v_dim_;
        std::vector<softmax_state> states_;
        aligned_buffer<float> out_;
    };

    void cut_into_tiles(int layer, std::span<const attention_span> spans);
    bool worth_splitting() const;
    void run_whole(int layer, const query_rows& queries, std::span<const float> sinks, float* out);
    void run_split(int layer, const query_rows& queries, std::span<const float> sinks, float* out);
    void run_wave(int layer, const query_rows& queries, std::size_t piece_rows);
    void merge_pieces(const tile& t, partial target, std::size_t piece_rows);
    void clear(const tile& t, partial target) const;
    void start(int layer, const tile& t, const query_rows& queries, std::span<const float> sinks,
               partial target) const;
    /// `next`: where this thread goes on, as far as that is known.
    void attend_part(int layer, place at, place next, const query_rows& queries, partial target,
                     int slot);
    void attend_frame(int layer, place at, place next, const query_rows& queries, partial target,
                      int slot);
    void attend_wide(int layer, const tile& t, const query_rows& queries, partial target, int slot);
    void attend_group(int layer, const tile& t, int from, int to, const query_rows& queries,
                      partial target, int slot);
    int packed_end(int position) const;
    place first_place(int index) const;
    void finish(const tile& t, partial from, float* out) const;
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
    partial_store running_;  // whole tiles: one a slot; split tiles: one a tile
    partial_store pieces_;   // one a unit of a wave
};

}  // namespace semantic::engine
