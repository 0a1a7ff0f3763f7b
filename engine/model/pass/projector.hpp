// SPDX-License-Identifier: Apache-2.0
#pragma once
// The products of a pass with a model's matrices. Owner: transformer. Thread: one at a time, which
// is in the arena. Exactness: every row by itself.

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
    /// `inputs_max`, `outputs_max`: columns of the widest matrix, and rows of all matrices that
    /// share an input. `corrects_all`: see multiply_layer(). `kernels` and `tasks` outlive it.
    projector(const kernel_table& kernels, const task_runner& tasks, int rows_max, int inputs_max,
              int outputs_max, bool corrects_all);

    /// job.y = W x for every job, of x [count, cols], which is overwritten. `exact`: those of the
    /// jobs in which what 8 bits lose of x is multiplied too. A tape (calibration has one, serving
    /// has none) records inputs and outputs; where it is replayed, only what x differs by is
    /// multiplied, and the recorded outputs have the corrections already. Requires: as
    /// linear_from(); every job.y without gaps.
    void multiply(std::span<const linear_job> jobs, std::span<const linear_job> exact, float* x,
                  int count);
    /// The same of a layer's matrices: all jobs are exact where the projector corrects all.
    void multiply_layer(std::span<const linear_job> jobs, std::span<const linear_job> exact,
                        float* x, int count) {
        multiply(jobs, corrects_all_ ? jobs : exact, x, count);
    }
    void add_bias(const linear_weights& weights, float* y, int count);

    /// Null: none. transformer::use_tape().
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
