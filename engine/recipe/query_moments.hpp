// SPDX-License-Identifier: Apache-2.0
#pragma once
// Collects the second moments E[q q'] of the queries of one KV head, and computes from them how the
// rounding of that head's keys is shaped (engine/model/heads/key_shaping.hpp). Pure arithmetic in a
// fixed order, so that every number of threads and every table of kernels gives the same bits.
// Owner: a calibration. Thread: one for each head.

#include <span>
#include <vector>

#include "engine/kernels/kernels.hpp"
#include "engine/model/config/model_config.hpp"

namespace semantic::engine {

class query_moments {
  public:
    explicit query_moments(int dim);

    /// Adds one query [dim], before rope.
    void add(const float* query);
    /// Writes this head's part of key_statistics::feedback to `out` [dim * (dim - 1) / 2]. Rope is
    /// averaged over the first `positions` positions of a context. The object is used up.
    void write_feedback(const rope_parameters& rope, int positions, const kernel_table& kernels,
                        std::span<float> out);

  private:
    /// Element [row, column] of the moments.
    double& at(int row, int column) {
        return sums_[static_cast<std::size_t>(row) * static_cast<std::size_t>(dim_) +
                     static_cast<std::size_t>(column)];
    }
    void apply_mean_rope(const rope_parameters& rope, int positions);
    void rotate(const kernel_table& kernels);

    int dim_;
    std::vector<double> sums_;  // [dim, dim] symmetric; add() fills the lower triangle only
};

}  // namespace semantic::engine
