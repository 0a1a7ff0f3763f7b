// SPDX-License-Identifier: Apache-2.0
#pragma once
// Per-layer embeddings (Gemma 4): in addition to the residual stream each layer gets an input that
// depends on the token's id. It is the sum of a part of a table's row and a projection of the
// token's embedding. Owner: transformer. Thread: one at a time, inside the arena. Exactness: every
// row by itself.

#include <span>

#include "engine/kernels/kernels.hpp"
#include "engine/kernels/task_runner.hpp"
#include "engine/model/config/model_config.hpp"
#include "engine/model/pass/projector.hpp"
#include "engine/model/pass/residual_stream.hpp"
#include "engine/model/weights/aligned_buffer.hpp"
#include "engine/model/weights/weights.hpp"
#include "storage/types/ids.hpp"

namespace semantic::engine {

class layer_inputs {
  public:
    /// All references must outlive this. `rows_max`: rows of a step; `panel_rows`: rows that are
    /// multiplied together.
    layer_inputs(const model_config& config, const kernel_table& kernels, const task_runner& tasks,
                 const model_weights& weights, int rows_max, int panel_rows);

    bool empty() const noexcept { return width_ == 0; }
    /// Reads the table's rows for `tokens`, which are the step's rows from `first` on.
    void read(int first, std::span<const storage::token_id> tokens);
    /// Adds the projections of the embeddings, which are the rows [0, count) of `stream`. Called
    /// once a step, after all read().
    void add_projections(int count, residual_stream& stream, projector& products);
    /// Copies the inputs of row `from` to row `to`.
    void move(int from, int to);
    /// Adds the layer's function of its inputs to the rows [0, count) of `stream`. `branch`
    /// [panel_rows, hidden]: scratch.
    void add_to(int layer, int count, residual_stream& stream, projector& products, float* branch);

  private:
    float* at(int row);  // [width_]

    const model_config& config_;
    const kernel_table& kernels_;
    const task_runner& tasks_;
    const model_weights& weights_;
    const int width_;  // numbers of a token: the inputs of all layers
    const int panel_rows_;
    aligned_buffer<float> inputs_;     // [rows_max, layers, layer_input_dim]
    aligned_buffer<float> projected_;  // [panel_rows, layers, layer_input_dim]
    aligned_buffer<float> gates_;      // [panel_rows, layer_input_dim]
};

}  // namespace semantic::engine
