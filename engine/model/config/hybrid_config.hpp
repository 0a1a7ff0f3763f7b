// SPDX-License-Identifier: Apache-2.0
#pragma once
// The parts of a config.json that speak of layers which do not all attend. Used by the sources of
// config/ only.

#include <vector>

#include "engine/model/config/config_fields.hpp"
#include "engine/model/config/families.hpp"
#include "engine/model/config/model_config.hpp"

namespace semantic::engine {

/// What a layer of a hybrid is made of.
struct layer_parts {
    mixer_kind mixer = mixer_kind::attention;
    bool feed_forward = true;
    bool mixture = false;
};

/// Sizes of the recurrent layers. Requires: out.hidden is read.
void read_recurrence(fields& source, const family_defaults& family, model_config& out);
/// The layers of a family with a recurrent spelling, from whichever field lists them. Requires:
/// out.mixture is read.
std::vector<layer_parts> read_layer_parts(fields& source, const family_defaults& family,
                                          const model_config& out);
/// Scales of embedding, residual stream, scores and logits.
void read_multipliers(fields& source, model_config& out);
/// Of the feed-forward of a family that adjusts_width, from the width that the file says.
int adjusted_width(fields& source, int width);

}  // namespace semantic::engine
