// SPDX-License-Identifier: Apache-2.0
#include "engine/model/pass/layer_inputs.hpp"

#include <algorithm>
#include <cmath>

#include "engine/types/area.hpp"
#include "storage/types/as_size.hpp"
#include "storage/types/assert.hpp"

namespace semantic::engine {

using storage::as_size;

layer_inputs::layer_inputs(const model_config& config, const kernel_table& kernels,
                           const task_runner& tasks, const model_weights& weights, int rows_max,
                           int panel_rows)
    : config_(config),
      kernels_(kernels),
      tasks_(tasks),
      weights_(weights),
      width_(config.layer_input_dim * static_cast<int>(config.layers.size())),
      panel_rows_(panel_rows),
      inputs_(area(rows_max, width_)),
      projected_(area(panel_rows, width_)),
      gates_(area(panel_rows, config.layer_input_dim)) {}

float* layer_inputs::at(int row) { return inputs_.data() + area(row, width_); }

void layer_inputs::move(int from, int to) {
    if (width_ > 0) std::copy_n(at(from), width_, at(to));
}

void layer_inputs::read(int first, std::span<const storage::token_id> tokens) {
    // As in the model: a table's row is multiplied by sqrt(dim).
    const float scale = std::sqrt(static_cast<float>(config_.layer_input_dim));
    const int count = static_cast<int>(tokens.size());
    tasks_.for_rows(0, count, 4 * width_, [&](int i) {
        const storage::token_id token = tokens[as_size(i)];
        ASSERT(token >= 0 && token < config_.vocabulary);
        float* x = at(first + i);
        weights_.layer_inputs.read(token, {x, as_size(width_)});
        for (int j = 0; j < width_; ++j) x[j] *= scale;
    });
}

void layer_inputs::add_projections(int count, residual_stream& stream, projector& products) {
    // As in the model: projections are divided by sqrt(hidden), and the sum of both by sqrt(2).
    const float before = 1.0f / std::sqrt(static_cast<float>(config_.hidden));
    const float after = 1.0f / std::sqrt(2.0f);
    const int dim = config_.layer_input_dim;
    const linear_job job = {&weights_.layer_input_projection.matrix, projected_.data(),
                            as_size(width_)};
    for (int begin = 0; begin < count; begin += panel_rows_) {
        const int end = std::min(begin + panel_rows_, count);
        // The second list has the jobs whose rounding is compensated.
        products.multiply_layer({&job, 1}, {&job, 1}, stream.read_normed(begin, end, {}),
                                end - begin);
        tasks_.for_rows(begin, end, 4 * width_, [&](int row) {
            float* x = at(row);
            float* more = projected_.data() + area(row - begin, width_);
            for (int i = 0; i < width_; ++i) more[i] *= before;
            for (int i = 0; i < width_; i += dim)
                kernels_.rms_norm(more + i, weights_.layer_input_norm.data(), more + i, dim,
                                  config_.norm_eps, config_.norm_one_plus);
            for (int i = 0; i < width_; ++i) x[i] = (more[i] + x[i]) * after;
        });
    }
}

void layer_inputs::add_to(int layer, int count, residual_stream& stream, projector& products,
                          float* branch) {
    const layer_input_weights& w = weights_.layers[as_size(layer)].input;
    const int dim = config_.layer_input_dim;
    const linear_job gate = {&w.gate.matrix, gates_.data(), as_size(dim)};
    const linear_job projection = {&w.projection.matrix, branch, as_size(config_.hidden)};
    for (int begin = 0; begin < count; begin += panel_rows_) {
        const int end = std::min(begin + panel_rows_, count);
        products.multiply_layer({&gate, 1}, {}, stream.read_normed(begin, end, {}), end - begin);
        tasks_.for_rows(begin, end, 8 * dim, [&](int row) {
            kernels_.gelu_mul(gates_.data() + area(row - begin, dim), at(row) + layer * dim,
                              as_size(dim));
        });
        products.multiply_layer({&projection, 1}, {}, gates_.data(), end - begin);
        stream.add(begin, end, branch, w.post_norm);
    }
}

}  // namespace semantic::engine
