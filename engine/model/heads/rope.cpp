// SPDX-License-Identifier: Apache-2.0
#include "engine/model/heads/rope.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace semantic::engine {

namespace {

/// Long wavelengths are stretched by `factor`, short ones kept, those between blended.
float llama3_scaled(const rope_parameters& rope, float frequency) {
    const double wavelength = 2.0 * std::numbers::pi / static_cast<double>(frequency);
    const double scaled = static_cast<double>(frequency) / rope.factor;
    if (wavelength > rope.original_context / rope.low_freq_factor) {
        return static_cast<float>(scaled);
    }
    if (wavelength < rope.original_context / rope.high_freq_factor) return frequency;
    const double smooth = (rope.original_context / wavelength - rope.low_freq_factor) /
                          (rope.high_freq_factor - rope.low_freq_factor);
    return static_cast<float>((1.0 - smooth) * scaled + smooth * static_cast<double>(frequency));
}

/// As rope_frequencies(), which says what `head_dim` counts: elements of a head that turn.
/// Dimensions that turn more than beta_fast times over the original context are kept, those that
/// turn less than beta_slow times are stretched by `factor`, those between blended by dimension.
std::vector<float> yarn_frequencies(const rope_parameters& rope, int head_dim) {
    const auto dimension_turning = [&](double turns) {
        return head_dim * std::log(rope.original_context / (turns * 2.0 * std::numbers::pi)) /
               (2.0 * std::log(rope.theta));
    };
    double low = dimension_turning(rope.beta_fast), high = dimension_turning(rope.beta_slow);
    if (rope.truncate) {
        low = std::floor(low);
        high = std::ceil(high);
    }
    low = std::max(low, 0.0);
    high = std::min(high, static_cast<double>(head_dim - 1));
    // As in the reference: the ramp below divides by the difference.
    if (low == high) high += 0.001;
    std::vector<float> frequencies(static_cast<std::size_t>(head_dim / 2));
    for (std::size_t i = 0; i < frequencies.size(); ++i) {
        const double kept = std::pow(rope.theta, -2.0 * static_cast<double>(i) / head_dim);
        const double ramp = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
        frequencies[i] = static_cast<float>(kept / rope.factor * ramp + kept * (1.0 - ramp));
    }
    return frequencies;
}

}  // namespace

// How far pair i turns from one position to the next: theta^(-2i / dim), then by kind
//   linear   divided by `factor`
//   llama3   long wavelengths divided by `factor`, short ones kept, those between blended
//   yarn     the same by how often a pair turns within the original context; has no divisors
// and last divided by the pair's divisor, where there are any. A proportional rope has all elements
// of the head as `dim` and turns the first `portion` of the pairs; the others do not turn: 0.
std::vector<float> rope_frequencies(const rope_parameters& rope, int dim) {
    if (rope.type == rope_parameters::scaling::yarn) return yarn_frequencies(rope, dim);
    std::vector<float> frequencies(static_cast<std::size_t>(dim / 2));
    const auto turning_pairs =
        rope.proportional ? static_cast<std::size_t>(rope.portion * dim / 2) : frequencies.size();
    for (std::size_t i = 0; i < turning_pairs; ++i) {
        const double exponent = 2.0 * static_cast<double>(i) / dim;
        auto frequency = static_cast<float>(1.0 / std::pow(rope.theta, exponent));
        if (rope.type == rope_parameters::scaling::linear) {
            frequency = static_cast<float>(static_cast<double>(frequency) / rope.factor);
        } else if (rope.type == rope_parameters::scaling::llama3) {
            frequency = llama3_scaled(rope, frequency);
        }
        if (!rope.divisors.empty()) frequency /= rope.divisors[i];
        frequencies[i] = frequency;
    }
    return frequencies;
}

int rope_mean_positions(const model_config& config) noexcept {
    return std::min(8192, config.context_tokens_max);
}

// The sum of a geometric series, divided by `count`; where it is 0 / 0, its limit 1.
std::pair<double, double> mean_turn(double frequency, int count) noexcept {
    const double half_step = 0.5 * frequency, middle = 0.5 * (count - 1) * frequency;
    const double damping = std::fabs(std::sin(half_step)) < 1e-12
                               ? 1.0
                               : std::sin(count * half_step) / (count * std::sin(half_step));
    return {damping * std::cos(middle), damping * std::sin(middle)};
}

/// Finds the different sets of rope parameters among the layers: angles are kept once for each set.
rope_angles::rope_angles(const model_config& config, int rows_max)
    : half_(static_cast<std::size_t>(config.head_dim / 2)) {
    std::vector<std::pair<rope_parameters, int>> sets;  // and the elements of a head
    for (const layer_config& layer : config.layers) {
        const std::pair one(layer.rope, config.head_dim_of(layer));
        const auto found = std::find(sets.begin(), sets.end(), one);
        set_of_layer_.push_back(static_cast<int>(found - sets.begin()));
        if (found == sets.end()) sets.push_back(one);
    }
    for (const auto& [set, head_dim] : sets) {
        amplitudes_.push_back(set.amplitude);
        frequencies_.push_back(rope_frequencies(set, set.rotated(head_dim)));
        angles_.emplace_back(static_cast<std::size_t>(rows_max) * 2 * half_);
        growths_.push_back(set.query_growth);
        growth_steps_.push_back(set.original_context);
        query_scales_.emplace_back(static_cast<std::size_t>(rows_max), 1.0f);
    }
}

void rope_angles::fill(int row, int position) {
    for (std::size_t set = 0; set < frequencies_.size(); ++set) {
        float* cosines = angles_[set].data() + static_cast<std::size_t>(row) * 2 * half_;
        for (std::size_t i = 0; i < frequencies_[set].size(); ++i) {
            // The reference multiplies in f32; the angle must be that one, its cosine may be
            // better.
            const float angle = static_cast<float>(position) * frequencies_[set][i];
            cosines[i] =
                static_cast<float>(std::cos(static_cast<double>(angle)) * amplitudes_[set]);
            cosines[half_ + i] =
                static_cast<float>(std::sin(static_cast<double>(angle)) * amplitudes_[set]);
        }
        if (growths_[set] == 0.0) continue;
        const double turns = std::floor(position / growth_steps_[set]);
        query_scales_[set][static_cast<std::size_t>(row)] =
            static_cast<float>(1.0 + growths_[set] * std::log(1.0 + turns));
    }
}

void rope_angles::turn(const kernel_table& kernels, int layer, int row, float* x) const {
    const int rotated = 2 * static_cast<int>(frequencies_[set_of(layer)].size());
    if (rotated > 0) kernels.rope(x, cosines(layer, row), sines(layer, row), rotated);
}

void rope_angles::turn_pairs(const kernel_table& kernels, int layer, int row, const float* x,
                             int dim, float* out) const {
    const int half_dim = dim / 2;
    for (int i = 0; i < half_dim; ++i) {
        out[i] = x[2 * i];
        out[half_dim + i] = x[2 * i + 1];
    }
    kernels.rope(out, cosines(layer, row), sines(layer, row), dim);
}

}  // namespace semantic::engine
