// SPDX-License-Identifier: Apache-2.0
#include "engine/model/weights/rounding_correction.hpp"

#include "engine/types/area.hpp"
#include "storage/types/assert.hpp"

namespace semantic::engine {

namespace {

// q, k and v, or a delta rule's inputs, gates, rates and steps.
constexpr std::size_t jobs_max = 4;

}  // namespace

rounding_correction::rounding_correction(const kernel_table& kernels, const task_runner& tasks,
                                         int rows_max, int inputs_max, int outputs_max)
    : kernels_(kernels),
      tasks_(tasks),
      rows_max_(rows_max),
      levels_(area(rows_max, inputs_max)),
      scales_(area(2 * rows_max, inputs_max / group_size)),
      more_(area(rows_max, outputs_max)),
      linear_scratch_(linear_scratch_floats(rows_max, inputs_max)) {}

void rounding_correction::add(std::span<const linear_job> jobs, float* x, int count, int cols) {
    linear_job more[jobs_max];
    float* targets[jobs_max];
    std::size_t found = 0;
    float* to = more_.data();
    for (const linear_job& job : jobs) {
        if (!job.weights->quantized()) continue;
        ASSERT(found < jobs_max);
        targets[found] = job.y;
        more[found++] = {job.weights, to, job.ldy};
        to += area(rows_max_, job.weights->rows);
    }
    ASSERT(to <= more_.data() + more_.count());
    if (found == 0) return;
    const int groups = cols / group_size;
    // Replaces each row of x by the error of its rounding.
    tasks_.for_rows(0, count, cols, [&](int row) {
        float* rest = x + area(row, cols);
        std::int8_t* levels = levels_.data() + area(row, cols);
        float* scales = scales_.data() + area(2 * row, groups);
        kernels_.quantize_rows(rest, 1, cols, levels, scales, scales + groups);
        for (int i = 0; i < cols; ++i)
            rest[i] -= scales[i / group_size] * static_cast<float>(levels[i]);
    });
    linear(kernels_, tasks_, {more, found}, x, count, cols, linear_scratch_.data());
    for (std::size_t i = 0; i < found; ++i)
        kernels_.add(targets[i], more[i].y, area(count, more[i].weights->rows));
}

}  // namespace semantic::engine
