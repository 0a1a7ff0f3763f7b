// SPDX-License-Identifier: Apache-2.0
#pragma once
// Activation functions of gates and steps in recurrent layers. Pure; the same bits with every table
// of kernels.

#include <cmath>
#include <cstddef>

#include "engine/kernels/kernels.hpp"

namespace semantic::engine {

/// x[i] = 1 / (1 + exp(-x[i]))
inline void sigmoid(const kernel_table& kernels, float* x, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) x[i] = -x[i];
    kernels.exp(x, x, n);
    for (std::size_t i = 0; i < n; ++i) x[i] = 1.0f / (1.0f + x[i]);
}

/// log(1 + exp(x)), without overflow.
inline float softplus(float x) {
    const auto wide = static_cast<double>(x);
    // Above 30 the logarithm is x in f32.
    return static_cast<float>(wide > 30.0 ? wide : std::log1p(std::exp(wide)));
}

}  // namespace semantic::engine
