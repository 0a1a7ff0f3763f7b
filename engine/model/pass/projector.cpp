// SPDX-License-Identifier: Apache-2.0
#include "engine/model/pass/projector.hpp"

#include "storage/types/as_size.hpp"

namespace semantic::engine {

using storage::as_size;

projector::projector(const kernel_table& kernels, const task_runner& tasks, int rows_max,
                     int inputs_max, int outputs_max, bool corrects_all)
    : kernels_(kernels),
      tasks_(tasks),
      corrects_all_(corrects_all),
      scratch_(linear_scratch_floats(rows_max, inputs_max)),
      correction_(kernels, tasks, rows_max, inputs_max, outputs_max) {}

void projector::multiply(std::span<const linear_job> jobs, std::span<const linear_job> exact,
                         float* x, int count) {
    const int cols = jobs[0].weights->cols;
    const int first = tape_ != nullptr ? tape_->take_input(tasks_, x, count, cols) : 0;
    linear_from(kernels_, tasks_, jobs, x, first, count, cols, scratch_.data());
    // In a replay the recorded outputs have the correction already.
    if (tape_ == nullptr || !tape_->replays()) correction_.add(exact, x, count, cols);
    if (tape_ != nullptr) tape_->take_outputs(tasks_, jobs, first, count);
}

void projector::add_bias(const linear_weights& weights, float* y, int count) {
    if (weights.bias.empty()) return;
    tasks_.for_rows(0, count, weights.matrix.rows, [&](int row) {
        weights.add_bias(kernels_, y + as_size(row) * as_size(weights.matrix.rows));
    });
}

}  // namespace semantic::engine
