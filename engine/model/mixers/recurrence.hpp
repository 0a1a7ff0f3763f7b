// SPDX-License-Identifier: Apache-2.0
#pragma once
// The heads of a recurrence over the pieces of a panel: which matrices are read and written, and
// how the work is split. Owner: a recurrent mixer. Thread: as there.

#include <cstddef>
#include <span>
#include <vector>

#include "engine/model/mixers/recurrent_mixer.hpp"
#include "engine/model/pass/pass_context.hpp"
#include "engine/model/weights/aligned_buffer.hpp"

namespace semantic::engine {

/// A panel's vectors, row after row. Numbers are [rows, value_heads].
struct recurrence_rows {
    int begin = 0;                // the first one, of the step
    const float* keys = nullptr;  // of all key heads
    const float* queries = nullptr;
    const float* values = nullptr;  // of all value heads
    std::size_t key_stride = 0, value_stride = 0;
    const float* decays = nullptr;
    const float* rates = nullptr;  // of the delta rule
    float* out = nullptr;          // [rows, value_width], of the panel
};

class recurrence {
  public:
    using kernel = void (*)(const recurrent_head& head);
    /// `context` outlives it.
    recurrence(const pass_context& context, kernel head_kernel);

    void run(int layer, const state_region& region, std::span<const state_piece> pieces,
             const recurrence_rows& rows);
    /// Computes the matrices again that the state has after the first `piece.count` of the rows
    /// that run() recorded for a sequence with drafts: the rows after them were of drafts that were
    /// not taken. What these rows give is thrown away.
    void replay(int layer, const state_region& region, const state_piece& piece);

  private:
    /// What the rows of sequences with drafts read, row after row.
    struct record {
        aligned_buffer<float> keys, queries;  // [draft_rows_max, key_width]
        aligned_buffer<float> values;         // [draft_rows_max, value_width]
        aligned_buffer<float> decays, rates;  // [draft_rows_max, value_heads]
    };
    void add_record(record& to, const state_piece& piece, const recurrence_rows& rows) const;
    void run_heads(const state_region& region, std::span<const state_piece> pieces,
                   const recurrence_rows& rows) const;
    void run_head(const state_region& region, const state_piece& piece, const recurrence_rows& rows,
                  int head) const;

    const pass_context& context_;
    const recurrence_config& shape_;
    const kernel run_;
    std::vector<record> recorded_;  // [layers]; empty where the layer is not recurrent
    bool has_rates_ = false;        // those that are recorded
    aligned_buffer<float> unused_;  // [draft_rows_max, value_width], what replayed rows give
};

}  // namespace semantic::engine
