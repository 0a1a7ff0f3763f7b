// SPDX-License-Identifier: Apache-2.0
#pragma once
// Rotary position embedding: the angles of a step's positions, with the scaling variants that
// published models use. Owner: transformer. Thread: fill() for different rows may run at once;
// reading needs no lock. Source: RoFormer, arXiv:2104.09864; YaRN, arXiv:2309.00071; llama3 scaling
// as in transformers' modeling_rope_utils.py (read 2026-11).

#include <utility>
#include <vector>

#include "engine/kernels/kernels.hpp"
#include "engine/model/config/model_config.hpp"

namespace semantic::engine {

/// Radians per position of each pair (i, i + dim / 2), in f32 as the reference computes them.
/// `dim`: the elements of a head that rotate.
std::vector<float> rope_frequencies(const rope_parameters& rope, int dim);

/// The number of positions over which rope's rotations are averaged for a head's statistics after
/// rope. Pairs that rotate often within them lose all of their mean; those that hardly rotate,
/// nothing.
int rope_mean_positions(const model_config& config) noexcept;
/// The mean of cos(frequency * p) and of sin(frequency * p) over p = 0 ... count - 1.
std::pair<double, double> mean_turn(double frequency, int count) noexcept;

class rope_angles {
  public:
    rope_angles(const model_config& config, int rows_max);

    /// Computes the cosines and sines of `position` for row `row`. A row's values depend on its
    /// position alone.
    void fill(int row, int position);

    /// Rotates a query or key x [head_dim] in place, as far as its head rotates.
    void turn(const kernel_table& kernels, int layer, int row, float* x) const;
    /// The factor of a query after rope, apart from the amplitude: 1 in most models.
    float query_scale(int layer, int row) const {
        return query_scales_[set_of(layer)][static_cast<std::size_t>(row)];
    }
    /// Shape: [rotated elements / 2] each.
    const float* cosines(int layer, int row) const { return at(layer, row); }
    const float* sines(int layer, int row) const { return at(layer, row) + half_; }
    /// out = x [dim], turned. Interleaved rope: the model rotates neighbouring elements together,
    /// the kernel those half a row apart. Queries and keys are both put into the kernel's order, so
    /// their products do not change.
    void turn_pairs(const kernel_table& kernels, int layer, int row, const float* x, int dim,
                    float* out) const;

  private:
    std::size_t set_of(int layer) const {
        return static_cast<std::size_t>(set_of_layer_[static_cast<std::size_t>(layer)]);
    }
    const float* at(int layer, int row) const {
        return angles_[set_of(layer)].data() + static_cast<std::size_t>(row) * 2 * half_;
    }
    std::size_t half_;
    std::vector<int> set_of_layer_;   // layers with equal parameters share their angles
    std::vector<double> amplitudes_;  // [set]
    std::vector<std::vector<float>> frequencies_;   // [set][rotated elements / 2]
    std::vector<std::vector<float>> angles_;        // [set][rows_max][cosines, sines]
    std::vector<double> growths_, growth_steps_;    // [set], rope_parameters::query_growth
    std::vector<std::vector<float>> query_scales_;  // [set][rows_max]
};

}  // namespace semantic::engine
