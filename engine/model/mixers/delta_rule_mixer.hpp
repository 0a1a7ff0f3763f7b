// SPDX-License-Identifier: Apache-2.0
#pragma once
// The gated delta rule of Qwen3-Next and Qwen3.5: linear attention with a matrix as the memory of
// each head. For each token the matrix decays by a gate, and is corrected towards the token's value
// by the difference to what it gives for the token's key.
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
    /// Multiplies the rows [begin, end) of the stream with the layer's matrices; fills columns_,
    /// gates_, rates_, and decays_ with the steps that prepare_row() turns into decays. Models have
    /// one matrix for columns and gates or two, and one for rates and steps or two.
    void project(const layer_weights& w, int begin, int end);
    void split_inputs(const float* fused, int row);
    void split_numbers(const float* fused, int row);
    void prepare_row(const recurrent_weights& w, int row);
    void finish_row(const recurrent_weights& w, int row, float* out);

    const recurrence_config& shape_;
    convolution convolution_;
    recurrence recurrence_;
    // [key_dim] weights with which an RMS norm gives a unit vector, for queries divided by
    // sqrt(key_dim), too.
    const std::vector<float> key_scale_, query_scale_;
    // Products with matrices that are one in the file: columns and gates [panel_rows, channels +
    // value_width], ordered by key head, then rates and steps [panel_rows, 2 * value_heads].
    aligned_buffer<float> fused_;
    aligned_buffer<float> columns_;         // [panel_rows, channels]: queries, keys, values
    aligned_buffer<float> convolved_;       // the same after the convolution
    aligned_buffer<float> gates_;           // [panel_rows, value_width]
    aligned_buffer<float> rates_, decays_;  // [panel_rows, value_heads]
};

}  // namespace semantic::engine
