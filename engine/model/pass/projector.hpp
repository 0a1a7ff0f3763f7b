// SPDX-License-Identifier: Apache-2.0
#pragma once
// Multiplies activations with a model's matrices. Owner: transformer. Thread: one at a time, inside
// the arena. Exactness: every row by itself.

#include <span>

#include "engine/kernels/gemm.hpp"
#include "engine/kernels/kernels.hpp"
#include "engine/kernels/task_runner.hpp"
#include "engine/model/weights/aligned_buffer.hpp"
#include "engine/model/weights/product_tape.hpp"
#include "engine/model/weights/rounding_correction.hpp"
#include "engine/model/weights/weights.hpp"

namespace semantic::engine {

class projector {
  public:
    /// `inputs_max`: columns of the widest matrix; `outputs_max`: the most rows of matrices that
    /// share an input. `corrects_all`: see multiply_layer(). `kernels` and `tasks` must outlive
    /// this.
    projector(const kernel_table& kernels, const task_runner& tasks, int rows_max, int inputs_max,
              int outputs_max, bool corrects_all);

    /// job.y = W x for every job. Shape: x [count, cols], which is overwritten. `exact`: the jobs
    /// for which the rounding of x to 8 bits is compensated. With a tape (only calibration has one)
    /// inputs and outputs are recorded; when it is replayed only the difference of x to the
    /// recorded input is multiplied. Requires: as linear_from(); the rows of every job.y are
    /// contiguous.
    void multiply(std::span<const linear_job> jobs, std::span<const linear_job> exact, float* x,
                  int count);
    /// As multiply(), for a layer's matrices: all jobs are exact if the projector was made with
    /// `corrects_all`.
    void multiply_layer(std::span<const linear_job> jobs, std::span<const linear_job> exact,
                        float* x, int count) {
        multiply(jobs, corrects_all_ ? jobs : exact, x, count);
    }
    /// Adds the bias, if there is one, to each row of y [count, rows of the matrix].
    void add_bias(const linear_weights& weights, float* y, int count);
    /// See transformer::use_tape().
    void use_tape(product_tape* tape) noexcept { tape_ = tape; }
    product_tape* tape() const noexcept { return tape_; }

  private:
    const kernel_table& kernels_;
    const task_runner& tasks_;
    const bool corrects_all_;
    product_tape* tape_ = nullptr;
    aligned_buffer<float> scratch_;
    rounding_correction correction_;
};

}  // namespace semantic::engine
