// SPDX-License-Identifier: Apache-2.0
#pragma once
// The causal convolution that recurrent layers begin with: of each channel the last few numbers, by
// weights of its own. Owner: a recurrent mixer. Thread: as there.

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
    /// What the convolution reads of a panel: of each row [channels], the numbers of its token. The
    /// row `begin` of the step lies at `data`, each other one `stride` floats after the one before
    /// it: a column may be part of a longer row that a projection gave.
    struct columns_view {
        const float* data;
        int begin;
        std::size_t stride;
    };

    /// `context` outlives it.
    explicit convolution(const pass_context& context);

    /// out [rows of the panel, channels], without gaps: of each row and channel the sum of the last
    /// `taps` numbers by their weights, and the bias, then the activation. Before a piece's first
    /// row the numbers are those in its state. `pieces`: all of the panel. Each one's last taps - 1
    /// columns go to the state after it, and rows of drafts are recorded.
    void run(int layer, const state_region& region, std::span<const state_piece> pieces,
             const columns_view& columns, activation after, float* out);
    /// The columns in the state after a piece whose rows run() has recorded.
    void replay(int layer, const state_region& region, const state_piece& piece) const;

  private:
    void record(int layer, const state_piece& piece, const float* columns, std::size_t stride);
    void keep_columns(const state_region& region, const state_piece& piece, const float* columns,
                      std::size_t stride) const;

    const pass_context& context_;
    const int taps_, channels_;
    aligned_buffer<float> zeros_;  // [channels], a column before the first token
    // [layers] of [draft_rows_max, channels]; empty where the layer is not recurrent.
    std::vector<aligned_buffer<float>> recorded_;
};

}  // namespace semantic::engine
