// SPDX-License-Identifier: Apache-2.0
#pragma once
// Mamba-2, the mixer of Granite 4 hybrids and Nemotron-H: for each token each head's matrix decays
// by a step that depends on the token, then the product of the token's key (B) and value (x) is
// added, and the query (C) reads the result.
// Owner: transformer. Thread: as recurrent_mixer. Source: arXiv:2405.21060, and transformers,
// modeling_granitemoehybrid.py and modeling_nemotron_h.py (read 2026-11).

#include "engine/model/mixers/convolution.hpp"
#include "engine/model/mixers/recurrence.hpp"
#include "engine/model/mixers/recurrent_mixer.hpp"
#include "engine/model/weights/aligned_buffer.hpp"

namespace semantic::engine {

class state_space_mixer final : public recurrent_mixer {
  public:
    explicit state_space_mixer(const pass_context& context);
    int width() const override { return shape_.value_width(); }

  private:
    void run_panel(int layer, int begin, int end, float* mixed) override;
    void replay(int layer, const state_piece& piece) override;
    void prepare_row(const recurrent_weights& w, int row);
    void finish_row(const recurrent_weights& w, int row, float* out);

    const recurrence_config& shape_;
    const int channels_;
    const int inputs_;  // rows of the input projection
    convolution convolution_;
    recurrence recurrence_;
    aligned_buffer<float> projected_;  // [panel_rows, inputs]: gate, columns, steps
    aligned_buffer<float> convolved_;  // [panel_rows, channels]: values, keys, queries
    aligned_buffer<float> values_;     // [panel_rows, value_width], multiplied by their steps
    aligned_buffer<float> decays_;     // [panel_rows, value_heads]
};

}  // namespace semantic::engine
