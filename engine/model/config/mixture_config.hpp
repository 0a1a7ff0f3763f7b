// SPDX-License-Identifier: Apache-2.0
#pragma once
// How a model's experts are chosen and how wide they are, from config.json. Used by
// model_config.cpp only. Thread: one.

#include <vector>

#include "engine/model/config/config_fields.hpp"
#include "engine/model/config/families.hpp"
#include "engine/model/config/model_config.hpp"

namespace semantic::engine {

/// Reads what the family's config says of experts into out.mixture; nothing for a family without.
/// What is not supported is in.complaint() afterwards.
void read_mixture(fields& section, const family_defaults& family, model_config& out);

/// Which of `count` layers are mixtures; none for a family without experts.
std::vector<bool> read_mixture_layers(fields& section, const family_defaults& family, int count);

}  // namespace semantic::engine
