// SPDX-License-Identifier: Apache-2.0
#pragma once
// What each layer of a model is, from config.json: windows, rope, mixtures, mixers. Used by
// model_config.cpp only. Thread: one.

#include "engine/model/config/config_fields.hpp"
#include "engine/model/config/families.hpp"
#include "engine/model/config/model_config.hpp"

namespace semantic::engine {

/// Fills out.layers. Requires: all else of `out` that this program reads of a family is read. What
/// is not supported is source.complaint() afterwards.
void read_layers(fields& source, const family_defaults& family, model_config& out);

}  // namespace semantic::engine
