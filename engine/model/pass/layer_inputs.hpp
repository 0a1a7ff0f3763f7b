// SPDX-License-Identifier: Apache-2.0
#pragma once
// What each layer gets of a token by its id, next to the stream: a part of a table's row and a
// projection of the token's embedding, added up once a token (Gemma 4's per-layer embeddings).
// Owner: transformer. Thread: one at a time, which is in the arena. Exactness: every row by itself.

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
    /// All outlive it. `rows_max`: of a step; `panel_rows`: of those that are worked on together.
    layer_inputs(const model_config& config, const kernel_table& kernels, const task_runner& tasks,
                 const model_weights& weights, int rows_max, int panel_rows);

    bool empty() const noexcept { return width_ == 0; }
    /// Reads the table's rows of `tokens`, which are the step's rows from `first` on.
    void read(int first, std::span<const storage::token_id> tokens);
    /// Adds what the embeddings say, which are the rows [0, count) of `stream`, after all read().
    void add_projections(int count, residual_stream& stream, projector& products);
    void move(int from, int to);

    /// Adds to the rows [0, count) of `stream` what `layer` makes of its inputs. `branch`
    /// [panel_rows, hidden]: scratch.
    void add_to(int layer, int count, residual_stream& stream, projector& products, float* branch);

  private:
    float* at(int row);  // [width_]

    const model_config& config_;
    const kernel_table& kernels_;
    const task_runner& tasks_;
    const model_weights& weights_;
    const int width_;  // of all layers' inputs of a token
    const int panel_rows_;
    aligned_buffer<float> inputs_;     // [rows_max, layers, layer_input_dim]
    aligned_buffer<float> projected_;  // [panel_rows, layers, layer_input_dim]
    aligned_buffer<float> gates_;      // [panel_rows, layer_input_dim]
};

}  // namespace semantic::engine
