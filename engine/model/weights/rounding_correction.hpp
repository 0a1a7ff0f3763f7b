// SPDX-License-Identifier: Apache-2.0
#pragma once
// Compensates the rounding of activations to 8 bits in products with quantised weights: multiplies
// the rounding error, too, and adds that product. Owner: transformer. Thread: add() is called by
// one thread at a time and uses the arena's threads. Exactness: every row by itself.

#include <span>

#include "engine/kernels/gemm.hpp"
#include "engine/kernels/kernels.hpp"
#include "engine/kernels/task_runner.hpp"
#include "engine/model/weights/aligned_buffer.hpp"

namespace semantic::engine {

class rounding_correction {
  public:
    /// `inputs_max`: columns of the widest matrix; `outputs_max`: the most rows that the matrices
    /// of one call have together.
    rounding_correction(const kernel_table& kernels, const task_runner& tasks, int rows_max,
                        int inputs_max, int outputs_max);

    /// job.y += W (x - round8(x)) for every job whose weights are quantised; then x is overwritten.
    /// Shape: x [count, cols]; every job.y [count, weights->rows], contiguous. Requires: at most
    /// three of the jobs have quantised weights.
    void add(std::span<const linear_job> jobs, float* x, int count, int cols);

  private:
    const kernel_table& kernels_;
    const task_runner& tasks_;
    int rows_max_;
    aligned_buffer<std::int8_t> levels_;  // [rows_max, inputs_max]
    aligned_buffer<float> scales_;        // [rows_max, 2, inputs_max / 64]
    aligned_buffer<float> more_;          // [rows_max, outputs_max]
    aligned_buffer<float> linear_scratch_;
};

}  // namespace semantic::engine
