// SPDX-License-Identifier: Apache-2.0
#pragma once
// Records the inputs and outputs of a model's matrix products in one run. A second run over the
// same tokens then multiplies only the difference of its inputs: W x = W x0 + W (x - x0). The
// reason is rounding: a product rounds its inputs to 8 bits, so two runs that differ in one key
// would soon differ by that rounding. Rounding the difference instead makes the error a hundred
// times smaller. For calibration. Owner: the code that makes both runs. Thread: one run at a time,
// which uses the arena's threads. Exactness: every row by itself.

#include <cstddef>
#include <span>
#include <vector>

#include "engine/kernels/gemm.hpp"
#include "engine/kernels/task_runner.hpp"
#include "engine/model/weights/aligned_buffer.hpp"

namespace semantic::engine {

class product_tape {
  public:
    /// Starts recording products from the beginning; what was recorded before is overwritten.
    void record() { start(false); }
    /// Starts replaying: each product is the recorded one plus that of the difference. Requires:
    /// the same products in the same order.
    void replay() { start(true); }
    bool replays() const noexcept { return replays_; }

    /// Called before the product of x [count, cols]: records x, or subtracts the recorded input
    /// from it. Returns: the first row that has to be multiplied; rows before it do not differ.
    int take_input(const task_runner& tasks, float* x, int count, int cols);
    /// Called after the product of the rows from `first` on: records each job's y, or adds the
    /// recorded output to it; rows before `first` become copies of the recorded output.
    void take_outputs(const task_runner& tasks, std::span<const linear_job> jobs, int first,
                      int count);

  private:
    void start(bool replays) {
        replays_ = replays;
        next_ = 0;
    }
    float* next(std::size_t floats);

    bool replays_ = false;
    std::size_t next_ = 0;                         // index of the matrix that comes next
    std::vector<aligned_buffer<float>> matrices_;  // inputs and outputs, in order
};

}  // namespace semantic::engine
