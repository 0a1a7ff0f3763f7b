// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler/policy/step_cost.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace semantic::engine {

namespace {

// The weight of the newest step in a mean.
constexpr double newest_step_share = 0.25;
// Of a step with twice as many rows as any before it: reading the weights costs no more.
constexpr double untried_growth = 1.25;
// The first chunk is taken to cost at least this part of its step, even if the step was faster than
// decoding alone had been.
constexpr double chunk_share_min = 0.1;
constexpr unsigned first_band_tokens = 1024;

template <std::size_t N>
std::size_t band_of_count(int count) {
    return std::min<std::size_t>(N - 1, std::bit_width(static_cast<unsigned>(count) - 1));
}

template <std::size_t N>
std::size_t band_of_depth(int position) {
    unsigned scaled = static_cast<unsigned>(position) / first_band_tokens + 1;
    return std::min<std::size_t>(N - 1, std::bit_width(scaled) - 1);
}

// Moves `mean` towards `sample`; the first sample becomes the mean.
void mix(double& mean, double sample) {
    mean = mean == 0 ? sample : mean + newest_step_share * (sample - mean);
}

// Returns: the mean of `band` if it has one; otherwise that of the nearest band that has one, of
// two equally near the higher one, which costs more. A mean from a lower band is multiplied by
// `growth` for each band in between. 0 if no band has a mean.
template <std::size_t N>
double nearest(const std::array<double, N>& means, std::size_t band, double growth) {
    for (std::size_t away = 0; away < N; ++away) {
        if (band + away < N && means[band + away] > 0) return means[band + away];
        if (away <= band && means[band - away] > 0)
            return means[band - away] * std::pow(growth, static_cast<double>(away));
    }
    return 0;
}

}  // namespace

void step_cost::learn(const step_sample& step) {
    if (step.seconds <= 0) return;
    double& decode = decode_[band_of_count<count_bands>(std::max(step.decoding, 1))];
    if (step.chunk_tokens == 0) {
        if (step.decoding > 0) mix(decode, step.seconds);
        return;
    }
    if (step.chunk_tokens < chunk_tokens_min) return;
    int middle = step.chunk_position + step.chunk_tokens / 2;
    double& prefill = prefill_[band_of_depth<depth_bands>(middle)];
    double decoding = decode_seconds(step.decoding);
    std::optional<double> known = prefill_seconds(middle);
    if (!known) {
        prefill =
            std::max(step.seconds - decoding, step.seconds * chunk_share_min) / step.chunk_tokens;
        return;
    }
    // One step cannot say which of its two parts, decoding or chunk, was estimated wrongly: both
    // estimates are scaled by the same factor.
    double factor = step.seconds / (decoding + *known * step.chunk_tokens);
    mix(prefill, *known * factor);
    if (decoding > 0) mix(decode, decoding * factor);
}

double step_cost::decode_seconds(int decoding) const {
    if (decoding <= 0) return 0;
    return nearest(decode_, band_of_count<count_bands>(decoding), 1.0);
}

double step_cost::rows_seconds(int rows) const {
    if (rows <= 0) return 0;
    return nearest(decode_, band_of_count<count_bands>(rows), untried_growth);
}

std::optional<double> step_cost::prefill_seconds(int position) const {
    // Attention's part grows with the depth, and a band is twice as deep as the one below.
    double seconds = nearest(prefill_, band_of_depth<depth_bands>(position), 2.0);
    if (seconds == 0) return std::nullopt;
    return seconds;
}

}  // namespace semantic::engine
