// SPDX-License-Identifier: Apache-2.0
#pragma once
// Runs the recurrence of all heads over the pieces of a panel with one of the kernels: finds each
// head's matrix in the states, and shares the work out. Owner: a recurrent mixer. Thread: as there.

#include <cstddef>
#include <span>
#include <vector>

#include "engine/model/mixers/recurrent_mixer.hpp"
#include "engine/model/pass/pass_context.hpp"
#include "engine/model/weights/aligned_buffer.hpp"

namespace semantic::engine {

/// The inputs of a panel, row after row. `decays` and `rates` are [rows, value_heads].
struct recurrence_rows {
    int begin = 0;                // the panel's first row, in the step
    const float* keys = nullptr;  // of all key heads
    const float* queries = nullptr;
    const float* values = nullptr;  // of all value heads
    std::size_t key_stride = 0, value_stride = 0;
    const float* decays = nullptr;
    const float* rates = nullptr;  // for the delta rule only
    float* out = nullptr;          // [rows, value_width], written
};

class recurrence {
  public:
    using kernel = void (*)(const recurrent_head& head);
    /// `context` must outlive this.
    recurrence(const pass_context& context, kernel head_kernel);
    /// Computes rows.out and the pieces' matrices in the states after them; records the inputs of
    /// sequences with drafts for replay().
    void run(int layer, const state_region& region, std::span<const state_piece> pieces,
             const recurrence_rows& rows);
    /// Computes again the matrices of the state after the first `piece.count` rows of a sequence
    /// with drafts, from the inputs that run() has recorded: the rows after them were drafts that
    /// were not taken. The output is thrown away.
    void replay(int layer, const state_region& region, const state_piece& piece);

  private:
    /// The inputs of the rows of sequences with drafts, row after row.
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
    std::vector<record> recorded_;  // by layer; empty if the layer is not recurrent
    bool has_rates_ = false;        // whether records have rates
    aligned_buffer<float> unused_;  // [draft_rows_max, value_width], output of replayed rows
};

}  // namespace semantic::engine
