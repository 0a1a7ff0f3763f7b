// SPDX-License-Identifier: Apache-2.0
#include "engine/model/pass/residual_stream.hpp"

#include <cstring>

#include "storage/types/as_size.hpp"

namespace semantic::engine {

using storage::as_size;

residual_stream::residual_stream(const model_config& config, const kernel_table& kernels,
                                 const task_runner& tasks, int rows_max, int panel_rows)
    : config_(config),
      kernels_(kernels),
      tasks_(tasks),
      rows_(as_size(rows_max) * as_size(config.hidden)),
      normed_(as_size(panel_rows) * as_size(config.hidden)) {}

float* residual_stream::at(int row) {
    return rows_.data() + as_size(row) * as_size(config_.hidden);
}

void residual_stream::move(int from, int to) {
    std::memcpy(at(to), at(from), as_size(config_.hidden) * sizeof(float));
}

float* residual_stream::read_normed(int begin, int end, const std::vector<float>& weight) {
    tasks_.for_rows(begin, end, config_.hidden, [&](int row) {
        float* to = normed_.data() + as_size(row - begin) * as_size(config_.hidden);
        if (weight.empty()) {
            std::memcpy(to, at(row), as_size(config_.hidden) * sizeof(float));
        } else {
            kernels_.rms_norm(at(row), weight.data(), to, config_.hidden, config_.norm_eps,
                              config_.norm_one_plus);
        }
    });
    return normed_.data();
}

void residual_stream::normalise(float* y, int count, const std::vector<float>& weight) const {
    tasks_.for_rows(0, count, config_.hidden, [&](int row) {
        float* x = y + as_size(row) * as_size(config_.hidden);
        kernels_.rms_norm(x, weight.data(), x, config_.hidden, config_.norm_eps,
                          config_.norm_one_plus);
    });
}

void residual_stream::scale(int count, float factor) {
    if (factor == 1.0f) return;
    tasks_.for_rows(0, count, config_.hidden, [&](int row) {
        float* x = at(row);
        for (int i = 0; i < config_.hidden; ++i) x[i] *= factor;
    });
}

void residual_stream::add(int begin, int end, float* y, const std::vector<float>& post_norm) {
    tasks_.for_rows(begin, end, config_.hidden, [&](int row) {
        float* more = y + as_size(row - begin) * as_size(config_.hidden);
        if (!post_norm.empty())
            kernels_.rms_norm(more, post_norm.data(), more, config_.hidden, config_.norm_eps,
                              config_.norm_one_plus);
        if (config_.residual_scale != 1.0f)
            for (int i = 0; i < config_.hidden; ++i) more[i] *= config_.residual_scale;
        kernels_.add(at(row), more, as_size(config_.hidden));
    });
}

}  // namespace semantic::engine
