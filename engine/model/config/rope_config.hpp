// SPDX-License-Identifier: Apache-2.0
#pragma once
// The rope part of config.json. Used by model_config.cpp only. Thread: one.

#include "engine/model/config/config_fields.hpp"
#include "engine/model/config/model_config.hpp"

namespace semantic::engine {

inline constexpr int context_max = 1 << 24;  // tokens

/// What a family's config class assumes.
struct rope_defaults {
    double theta = 10000.0;
    double theta_sliding = 0.0;     // 0: sliding layers turn as full ones do
    double portion = 1.0;           // of a head that rotates
    bool may_be_partial = false;    // a file may say another portion
    bool scales_full_only = false;  // scaling is of the layers without window alone
    const char* scaling = nullptr;  // JSON, for a file that has no rope at all
};

struct layer_ropes {
    rope_parameters full, sliding;
};

/// Published configs have `rope_theta`, `rope_local_base_freq` and `rope_scaling` at top level,
/// newer ones a single `rope_parameters`, with an object for each kind of layer where they differ.
/// `context`: max_position_embeddings.
layer_ropes read_rope(fields& source, const rope_defaults& family, int context);

/// By how much scaled rope sharpens the scores of latent attention: the square of
/// `mscale_all_dim`'s amplitude; 1 without it.
double read_rope_sharpening(fields& source);

}  // namespace semantic::engine
