// SPDX-License-Identifier: Apache-2.0
#pragma once
// The residual stream: a vector for each row, which goes through all layers. Every mixer and
// feed-forward part reads its norm and adds to it. Owner: transformer. Thread: one at a time,
// inside the arena.

#include <vector>

#include "engine/kernels/kernels.hpp"
#include "engine/kernels/task_runner.hpp"
#include "engine/model/config/model_config.hpp"
#include "engine/model/weights/aligned_buffer.hpp"

namespace semantic::engine {

class residual_stream {
  public:
    /// References must outlive this. `panel_rows`: the most rows of one read_normed().
    residual_stream(const model_config& config, const kernel_table& kernels,
                    const task_runner& tasks, int rows_max, int panel_rows);

    float* at(int row);  // [hidden]
    void move(int from, int to);

    /// Returns: the RMS norms of the rows [begin, end), or copies if `weight` is empty. Shape: [end
    /// - begin, hidden]; valid until the next call, and the caller may overwrite it.
    float* read_normed(int begin, int end, const std::vector<float>& weight);
    /// Adds y [end - begin, hidden] to the rows [begin, end): normalised first unless `post_norm`
    /// is empty, and scaled as the model says. y is overwritten.
    void add(int begin, int end, float* y, const std::vector<float>& post_norm);
    /// Replaces each row of y [count, hidden] by its RMS norm.
    void normalise(float* y, int count, const std::vector<float>& weight) const;
    /// Multiplies the rows [0, count) by `factor`.
    void scale(int count, float factor);

  private:
    const model_config& config_;
    const kernel_table& kernels_;
    const task_runner& tasks_;
    aligned_buffer<float> rows_;    // [rows_max, hidden]
    aligned_buffer<float> normed_;  // [panel_rows, hidden]
};

}  // namespace semantic::engine
