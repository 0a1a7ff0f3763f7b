#include "engine/model/weights/product_tape.hpp"

#include <algorithm>

#include "storage/types/assert.hpp"

namespace semantic::engine {

void product_tape::take_input(const task_runner& tasks, float* x, int count, int cols) {
    const auto width = static_cast<std::size_t>(cols);
    float* kept = next(static_cast<std::size_t>(count) * width);
    tasks.for_rows(0, count, cols, [&](int row) {
        float* from = x + static_cast<std::size_t>(row) * width;
        float* at = kept + static_cast<std::size_t>(row) * width;
        if (replays_) {
            for (std::size_t i = 0; i < width; ++i) from[i] -= at[i];
        } else {
            std::copy_n(from, width, at);
        }
    });
}

void product_tape::take_outputs(const task_runner& tasks, std::span<const linear_job> jobs,
                                int count) {
    for (const linear_job& job : jobs) {
        const auto width = static_cast<std::size_t>(job.weights->rows);
        float* kept = next(static_cast<std::size_t>(count) * width);
        tasks.for_rows(0, count, job.weights->rows, [&](int row) {
            float* y = job.y + static_cast<std::size_t>(row) * job.ldy;
            float* at = kept + static_cast<std::size_t>(row) * width;
            if (replays_) {
                for (std::size_t i = 0; i < width; ++i) y[i] += at[i];
            } else {
                std::copy_n(y, width, at);
            }
        });
    }
}

/// Room for the next matrix, or the one that was recorded there.
float* product_tape::next(std::size_t floats) {
    if (next_ == matrices_.size()) {
        ASSERT(!replays_);
        matrices_.emplace_back();
    }
    aligned_buffer<float>& matrix = matrices_[next_++];
    if (matrix.count() < floats) {
        ASSERT(!replays_);
        matrix = aligned_buffer<float>(floats);
    }
    return matrix.data();
}

}  // namespace semantic::engine
