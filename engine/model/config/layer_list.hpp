// SPDX-License-Identifier: Apache-2.0
#pragma once
// Reads from config.json what each layer of a model has: window, rope, mixture of experts, mixer.
// Used by model_config.cpp only. Thread: one.

#include "engine/model/config/config_fields.hpp"
#include "engine/model/config/families.hpp"
#include "engine/model/config/model_config.hpp"

namespace semantic::engine {

/// Fills out.layers. Requires: the rest of `out` is read. Afterwards source.complaint() says what
/// is not supported, if anything.
void read_layers(fields& source, const family_defaults& family, model_config& out);

}  // namespace semantic::engine
