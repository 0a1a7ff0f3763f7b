// SPDX-License-Identifier: Apache-2.0
#pragma once
// Reads the fields of config.json that hybrid models have for their recurrent layers. Used by the
// sources of config/ only.

#include <vector>

#include "engine/model/config/config_fields.hpp"
#include "engine/model/config/families.hpp"
#include "engine/model/config/model_config.hpp"

namespace semantic::engine {

/// The parts of one layer of a hybrid model.
struct layer_parts {
    mixer_kind mixer = mixer_kind::attention;
    bool feed_forward = true;
    bool mixture = false;
};

/// Reads the sizes of the recurrent layers into `out`. Requires: out.hidden is read.
void read_recurrence(fields& source, const family_defaults& family, model_config& out);
/// Returns: the parts of each layer, from the field that lists them in this family. Requires:
/// out.mixture is read.
std::vector<layer_parts> read_layer_parts(fields& source, const family_defaults& family,
                                          const model_config& out);
/// Reads the factors of embedding, residual stream, scores and logits.
void read_multipliers(fields& source, model_config& out);
/// The real width of the feed-forward part, for a family that adjusts_width. `width`: as the file
/// says.
int adjusted_width(fields& source, int width);

}  // namespace semantic::engine
