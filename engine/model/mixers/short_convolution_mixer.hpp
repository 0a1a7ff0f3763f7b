// SPDX-License-Identifier: Apache-2.0
#pragma once
// The mixer of LFM2: a gate on the input, a short convolution, and a gate on the result. Owner:
// transformer. Thread: as recurrent_mixer. Source: transformers, modeling_lfm2.py (read 2026-11).

#include "engine/model/mixers/convolution.hpp"
#include "engine/model/mixers/recurrent_mixer.hpp"
#include "engine/model/weights/aligned_buffer.hpp"

namespace semantic::engine {

class short_convolution_mixer final : public recurrent_mixer {
  public:
    explicit short_convolution_mixer(const pass_context& context);
    int width() const override { return context_.config.hidden; }

  private:
    void run_panel(int layer, int begin, int end, float* mixed) override;
    void replay(int layer, const state_piece& piece) override;

    convolution convolution_;
    aligned_buffer<float> projected_;  // [panel_rows, 3 * hidden]
    aligned_buffer<float> convolved_;  // [panel_rows, hidden]
};

}  // namespace semantic::engine
