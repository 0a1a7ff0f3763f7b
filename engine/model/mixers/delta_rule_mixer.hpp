// SPDX-License-Identifier: Apache-2.0
#pragma once
// The gated delta rule of Qwen3-Next and Qwen3.5: linear attention whose memory of each head is a
// matrix that forgets by a gate and learns a value for a key by what it does not know of it yet.
// Owner: transformer. Thread: as recurrent_mixer. Source: arXiv:2412.06464, and transformers,
// modeling_qwen3_next.py and modeling_qwen3_5.py (read 2026-11).

#include <vector>

#include "engine/model/mixers/convolution.hpp"
#include "engine/model/mixers/recurrence.hpp"
#include "engine/model/mixers/recurrent_mixer.hpp"
#include "engine/model/weights/aligned_buffer.hpp"

namespace semantic::engine {

class delta_rule_mixer final : public recurrent_mixer {
  public:
    explicit delta_rule_mixer(const pass_context& context);
    int width() const override { return shape_.value_width(); }

  private:
    void run_panel(int layer, int begin, int end, float* mixed) override;
    void replay(int layer, const state_piece& piece) override;
    /// What the layer's matrices make of the rows [begin, end) of the stream: columns_, gates_,
    /// rates_, and in decays_ the steps, of which prepare_row() makes decays. A file has one matrix
    /// for columns and gates or two, and one for rates and steps or two.
    void project(const layer_weights& w, int begin, int end);
    void split_inputs(const float* fused, int row);
    void split_numbers(const float* fused, int row);
    void prepare_row(const recurrent_weights& w, int row);
    void finish_row(const recurrent_weights& w, int row, float* out);

    const recurrence_config& shape_;
    convolution convolution_;
    recurrence recurrence_;
    const std::vector<float> key_scale_, query_scale_;  // [key_dim], of a unit vector's elements
    // What matrices give that are one in the file: first [panel_rows, channels + value_width] of
    // columns and gates, a key head after the other, then [panel_rows, 2 * value_heads] of rates
    // and steps, likewise.
    aligned_buffer<float> fused_;
    aligned_buffer<float> columns_;         // [panel_rows, channels]: queries, keys, values
    aligned_buffer<float> convolved_;       // the same after the convolution
    aligned_buffer<float> gates_;           // [panel_rows, value_width]
    aligned_buffer<float> rates_, decays_;  // [panel_rows, value_heads]
};

}  // namespace semantic::engine
