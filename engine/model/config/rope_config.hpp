// SPDX-License-Identifier: Apache-2.0
#pragma once
// The rope part of config.json. Used by model_config.cpp only. Thread: one.

#include "engine/model/config/config_fields.hpp"
#include "engine/model/config/model_config.hpp"

namespace semantic::engine {

inline constexpr int context_max = 1 << 24;  // tokens

/// A family's defaults of rope.
struct rope_defaults {
    double theta = 10000.0;
    double theta_sliding = 0.0;     // 0: sliding layers have the same rope as full ones
    double portion = 1.0;           // share of a head that rotates
    bool may_be_partial = false;    // a file may set another portion
    bool scales_full_only = false;  // only layers without window have scaling
    const char* scaling = nullptr;  // JSON, for a file that has no rope at all
};

struct layer_ropes {
    rope_parameters full, sliding;
};

/// Reads the rope of full and of sliding layers. Published configs have `rope_theta`,
/// `rope_local_base_freq` and `rope_scaling` at top level; newer ones have `rope_parameters`, with
/// an object for each kind of layer if they differ. `context`: max_position_embeddings.
layer_ropes read_rope(fields& source, const rope_defaults& family, int context);

/// The factor of attention scores that scaled rope adds to latent attention: the square of the
/// amplitude by `mscale_all_dim`; 1 without that field.
double read_rope_sharpening(fields& source);

}  // namespace semantic::engine
