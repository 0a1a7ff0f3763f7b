// SPDX-License-Identifier: Apache-2.0
#pragma once
// Reads from config.json how a model's experts are chosen and how wide they are. Used by
// model_config.cpp only. Thread: one.

#include <vector>

#include "engine/model/config/config_fields.hpp"
#include "engine/model/config/families.hpp"
#include "engine/model/config/model_config.hpp"

namespace semantic::engine {

/// Fills out.mixture; does nothing for a family without experts. Afterwards section.complaint()
/// says what is not supported, if anything.
void read_mixture(fields& section, const family_defaults& family, model_config& out);

/// Returns: for each of `count` layers whether it has experts; false for a family without.
std::vector<bool> read_mixture_layers(fields& section, const family_defaults& family, int count);

}  // namespace semantic::engine
