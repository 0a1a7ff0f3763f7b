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

    /// `context` outlives it.
    explicit convolution(const pass_context& context);

    /// out [rows of the panel, channels] = the convolution of `columns`, of which the row `begin`
    /// is the first and `stride` floats lie from one to the next. `pieces`: of the panel; the
    /// columns that follow them go to their states. `activated`: and then silu.
    void run(int layer, const state_region& region, std::span<const state_piece> pieces, int begin,
             const float* columns, std::size_t stride, bool activated, float* out);
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
