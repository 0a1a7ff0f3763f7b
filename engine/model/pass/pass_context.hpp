// SPDX-License-Identifier: Apache-2.0
#pragma once
// References to what every part of a forward pass uses. Owner: transformer, which outlives the
// parts.

#include "engine/kernels/kernels.hpp"
#include "engine/kernels/task_runner.hpp"
#include "engine/model/config/model_config.hpp"
#include "engine/model/pass/pass_rows.hpp"
#include "engine/model/pass/projector.hpp"
#include "engine/model/pass/residual_stream.hpp"
#include "engine/model/weights/weights.hpp"

namespace semantic::engine {

struct pass_context {
    const model_config& config;
    const kernel_table& kernels;
    const task_runner& tasks;
    const model_weights& weights;
    const pass_rows& rows;
    residual_stream& stream;
    projector& products;
    int panel_rows;      // most rows that go through a layer's matrices together
    int draft_rows_max;  // rows of sequences with drafts in one step

    const layer_weights& layer(int index) const {
        return weights.layers[static_cast<std::size_t>(index)];
    }
    const layer_config& kind(int index) const {
        return config.layers[static_cast<std::size_t>(index)];
    }
};

}  // namespace semantic::engine
