// SPDX-License-Identifier: Apache-2.0
#pragma once
// Multiplies each head's vectors with a matrix of that head, as latent attention needs it for
// queries and for values.
// Owner: transformer. Thread: run() is called by one thread at a time and uses the arena's threads.
// Exactness: every row and head by itself. For quantised matrices the
// quantisation error of the inputs is multiplied too and added (rounding_correction).

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/kernels/kernels.hpp"
#include "engine/kernels/task_runner.hpp"
#include "engine/model/weights/aligned_buffer.hpp"

namespace semantic::engine {

/// Rows that have a vector for each head; the steps are in elements.
template <class Element>
struct head_vectors {
    Element* data;
    std::size_t row_step;   // from one row to the next
    std::size_t head_step;  // from one head's vector to the next
};

class head_products {
  public:
    /// `inputs_max`, `outputs_max`: columns and rows of the largest matrix that run() may get;
    /// 0 for a model without such matrices, for which nothing is allocated.
    head_products(const kernel_table& kernels, const task_runner& tasks, int inputs_max,
                  int outputs_max);

    /// y[row, head] = heads[head] * x[row, head] for `count` rows. Requires: all matrices have the
    /// same shape; x and y do not overlap.
    void run(std::span<const packed_matrix> heads, head_vectors<const float> x, int count,
             head_vectors<float> y);

  private:
    struct slot_scratch {
        aligned_buffer<float> rows;  // [block, inputs]
        aligned_buffer<std::int8_t> levels;
        aligned_buffer<float> scales, sums;      // [block, inputs / 64]
        aligned_buffer<std::int16_t> part_sums;  // [block, inputs / 16]
        aligned_buffer<float> corrections;       // [block, outputs]
    };

    /// The product of one head's matrix with at most 64 rows.
    void run_block(const packed_matrix& w, const float* x, std::size_t row_step, int count,
                   float* y, std::size_t ldy, slot_scratch& scratch) const;

    const kernel_table& kernels_;
    const task_runner& tasks_;
    std::vector<slot_scratch> slots_;
};

}  // namespace semantic::engine
