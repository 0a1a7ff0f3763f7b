// SPDX-License-Identifier: Apache-2.0
#pragma once
// What runs through all layers: a vector a row, which every mixer and feed-forward reads
// normalised and adds to. Owner: transformer. Thread: one at a time, which is in the arena.

#include <vector>

#include "engine/kernels/kernels.hpp"
#include "engine/kernels/task_runner.hpp"
#include "engine/model/config/model_config.hpp"
#include "engine/model/weights/aligned_buffer.hpp"

namespace semantic::engine {

class residual_stream {
  public:
    /// The other arguments outlive it. `panel_rows`: of one call of read_normed().
    residual_stream(const model_config& config, const kernel_table& kernels,
                    const task_runner& tasks, int rows_max, int panel_rows);

    float* at(int row);  // [hidden]
    void move(int from, int to);

    /// Returns: the norm of the rows [begin, end) [end - begin, hidden], or a copy of them where
    /// `weight` is empty, until the next call; the caller may use it up.
    float* read_normed(int begin, int end, const std::vector<float>& weight);
    /// Adds y [end - begin, hidden] to the rows [begin, end), normalised first where there is a
    /// `post_norm`, and scaled as the model says. y is used up.
    void add(int begin, int end, float* y, const std::vector<float>& post_norm);
    /// y [count, hidden] becomes its norm.
    void normalise(float* y, int count, const std::vector<float>& weight) const;
    /// Multiplies the rows [0, count).
    void scale(int count, float factor);

  private:
    const model_config& config_;
    const kernel_table& kernels_;
    const task_runner& tasks_;
    aligned_buffer<float> rows_;    // [rows_max, hidden]
    aligned_buffer<float> normed_;  // [panel_rows, hidden]
};

}  // namespace semantic::engine
