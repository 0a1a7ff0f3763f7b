// SPDX-License-Identifier: Apache-2.0
#pragma once
// Second moments of a model's queries, and from these how the rounding of keys is shaped
// (engine/model/heads/key_shaping.hpp). Pure arithmetic in a fixed order, so that every number of
// threads and every table of kernels gives the same bits. Owner: a calibration. Thread: one for
// each head.

#include <span>
#include <vector>

#include "engine/kernels/kernels.hpp"
#include "engine/model/config/model_config.hpp"

namespace semantic::engine {

class query_moments {
  public:
    explicit query_moments(int dim);

    /// `query`: before rope [dim].
    void add(const float* query);
    /// Returns: key_statistics::feedback of one head whose queries were added; rope's turns are
    /// averaged over the first positions of a context. `out`: [dim * (dim - 1) / 2]. Used up.
    void write_feedback(const rope_parameters& rope, int positions, const kernel_table& kernels,
                        std::span<float> out);

  private:
    double& at(int row, int column) {
        return sums_[static_cast<std::size_t>(row) * static_cast<std::size_t>(dim_) +
                     static_cast<std::size_t>(column)];
    }
    void turn(const rope_parameters& rope, int positions);
    void rotate(const kernel_table& kernels);

    int dim_;
    std::vector<double> sums_;  // [dim, dim]; what lies above the diagonal mirrors what lies below
};

}  // namespace semantic::engine
