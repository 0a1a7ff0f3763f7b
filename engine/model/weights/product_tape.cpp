// SPDX-License-Identifier: Apache-2.0
#include "engine/model/weights/product_tape.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>

#include "storage/types/assert.hpp"

namespace semantic::engine {

namespace {

/// x -= y. Returns: whether anything is left of x.
bool subtract(const float* y, std::size_t n, float* x) {
    std::uint32_t bits = 0;
    for (std::size_t i = 0; i < n; ++i) {
        x[i] -= y[i];
        bits |= std::bit_cast<std::uint32_t>(x[i]);
    }
    return bits << 1 != 0;  // shifts the sign out: -0 is no difference
}

}  // namespace

int product_tape::take_input(const task_runner& tasks, float* x, int count, int cols) {
    const auto width = static_cast<std::size_t>(cols);
    float* kept = next(static_cast<std::size_t>(count) * width);
    if (!replays_) {
        tasks.for_rows(0, count, cols, [&](int row) {
            const std::size_t at = static_cast<std::size_t>(row) * width;
            std::copy_n(x + at, width, kept + at);
        });
        return 0;
    }
    // The least row that differs; several threads look for it.
    std::atomic<int> first = count;
    tasks.for_rows(0, count, cols, [&](int row) {
        const std::size_t at = static_cast<std::size_t>(row) * width;
        if (!subtract(kept + at, width, x + at)) return;
        int least = first.load(std::memory_order_relaxed);
        while (row < least && !first.compare_exchange_weak(least, row)) {
        }
    });
    return first;
}

void product_tape::take_outputs(const task_runner& tasks, std::span<const linear_job> jobs,
                                int first, int count) {
    for (const linear_job& job : jobs) {
        const auto width = static_cast<std::size_t>(job.weights->rows);
        float* kept = next(static_cast<std::size_t>(count) * width);
        tasks.for_rows(0, count, job.weights->rows, [&](int row) {
            float* y = job.y + static_cast<std::size_t>(row) * job.ldy;
            float* at = kept + static_cast<std::size_t>(row) * width;
            if (!replays_) {
                std::copy_n(y, width, at);
            } else if (row < first) {
                std::copy_n(at, width, y);
            } else {
                for (std::size_t i = 0; i < width; ++i) y[i] += at[i];
            }
        });
    }
}

/// The next recorded matrix, or memory for it.
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
