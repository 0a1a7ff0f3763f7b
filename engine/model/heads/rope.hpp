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

/// Returns: the radians by which each pair of elements (i, i + dim / 2) rotates per position, in
/// f32 as the reference computes them. `dim`: elements of a head that rotate.
std::vector<float> rope_frequencies(const rope_parameters& rope, int dim);

/// The number of positions over which a head's statistics after rope are averaged. The mean of a
/// pair that rotates often within them becomes 0; that of a pair that hardly rotates stays.
int rope_mean_positions(const model_config& config) noexcept;
/// The mean of cos(frequency * p) and of sin(frequency * p) over p = 0 ... count - 1.
std::pair<double, double> mean_turn(double frequency, int count) noexcept;

class rope_angles {
  public:
    rope_angles(const model_config& config, int rows_max);

    /// Computes the cosines and sines for row `row` of a step, which is at `position`.
    void fill(int row, int position);

    /// Applies rope to a query or key x [head_dim] in place; only the elements that rotate change.
    void turn(const kernel_table& kernels, int layer, int row, float* x) const;
    /// A factor for queries after rope, which grows with the position in some models; 1 in most.
    float query_scale(int layer, int row) const {
        return query_scales_[set_of(layer)][static_cast<std::size_t>(row)];
    }
    /// Shape: [rotated elements / 2] each.
    const float* cosines(int layer, int row) const { return at(layer, row); }
    const float* sines(int layer, int row) const { return at(layer, row) + half_; }
    /// out = rope(x) [dim], for models with interleaved rope: there neighbouring elements rotate
    /// together, in the kernel those half a row apart. `out` is in the kernel's order; with queries
    /// and keys both in that order their products are the same.
    void turn_pairs(const kernel_table& kernels, int layer, int row, const float* x, int dim,
                    float* out) const;

  private:
    /// The set of angles that the layer uses.
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
