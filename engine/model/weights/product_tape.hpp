// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the matrices of a model were given and gave in one run, so that a second run over the same
// tokens adds to it what its own inputs differ by: W x = W x0 + W (x - x0). A product rounds what
// is multiplied to 8 bits, in groups that their largest element scales. Of two runs that differ in
// one key those roundings soon have nothing in common; of the difference they take hundredths.
// Owner: who runs both. Thread: one run at a time, which uses the arena's threads.
// Exactness: every row by itself.

#include <cstddef>
#include <span>
#include <vector>

#include "engine/kernels/gemm.hpp"
#include "engine/kernels/task_runner.hpp"
#include "engine/model/weights/aligned_buffer.hpp"

namespace semantic::engine {

class product_tape {
  public:
    /// From here on products are written down, over those of an earlier step.
    void record() { start(false); }
    /// From here on products are the recorded ones and what is added to them. Requires: the same
    /// products in the same order.
    void replay() { start(true); }
    bool replays() const noexcept { return replays_; }

    /// Before the product of x [count, cols]: writes x down, or leaves in x what it differs by.
    /// Returns: the first row that has to be multiplied; those before it do not differ.
    int take_input(const task_runner& tasks, float* x, int count, int cols);
    /// After the product of the rows from `first` on: writes every job's y down, or adds the
    /// recorded one; rows before `first` become the recorded ones.
    void take_outputs(const task_runner& tasks, std::span<const linear_job> jobs, int first,
                      int count);

  private:
    void start(bool replays) {
        replays_ = replays;
        next_ = 0;
    }
    float* next(std::size_t floats);

    bool replays_ = false;
    std::size_t next_ = 0;
    std::vector<aligned_buffer<float>> matrices_;  // inputs and outputs, in order
};

}  // namespace semantic::engine
