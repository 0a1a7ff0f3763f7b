// SPDX-License-Identifier: Apache-2.0
#pragma once
// The causal convolution that recurrent layers begin with: each channel's output is a weighted sum
// of its last few inputs, with weights of its own. The last inputs ("columns") are part of the
// layer's state. Owner: a recurrent mixer. Thread: as there.

#include <cstddef>
#include <span>
#include <vector>

#include "engine/model/mixers/recurrent_mixer.hpp"
#include "engine/model/pass/pass_context.hpp"
#include "engine/model/weights/aligned_buffer.hpp"

namespace semantic::engine {

class convolution {
  public:
    static constexpr int taps_max = 16;

    enum class activation { none, silu };
    /// The inputs of a panel: for each row a column [channels]. The column of the step's row
    /// `begin` is at `data`, that of each following row `stride` floats further: a column may be
    /// part of a longer row.
    struct columns_view {
        const float* data;
        int begin;
        std::size_t stride;
    };

    /// `context` must outlive this.
    explicit convolution(const pass_context& context);

    /// Computes out [rows of the panel, channels]: for each row and channel the weighted sum of the
    /// last `taps` inputs, plus the bias, then the activation. Inputs before a piece's first row
    /// come from its state. `pieces`: all pieces of the panel; the last taps - 1 columns of each
    /// are written to the state after it, and rows of sequences with drafts are recorded for
    /// replay().
    void run(int layer, const state_region& region, std::span<const state_piece> pieces,
             const columns_view& columns, activation after, float* out);
    /// Writes the columns of the state after a piece, whose rows run() has recorded.
    void replay(int layer, const state_region& region, const state_piece& piece) const;

  private:
    /// Copies the columns of a piece with drafts to recorded_.
    void record(int layer, const state_piece& piece, const float* columns, std::size_t stride);
    void keep_columns(const state_region& region, const state_piece& piece, const float* columns,
                      std::size_t stride) const;

    const pass_context& context_;
    const int taps_, channels_;
    aligned_buffer<float> zeros_;  // [channels], a column before the first token
    // By layer: [draft_rows_max, channels]; empty if the layer is not recurrent.
    std::vector<aligned_buffer<float>> recorded_;
};

}  // namespace semantic::engine
