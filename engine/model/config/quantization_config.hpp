// SPDX-License-Identifier: Apache-2.0
#pragma once
// The part of config.json that says how a model's matrices are quantised. Used by model_config.cpp
// only. Thread: one.

#include "engine/model/config/config_fields.hpp"
#include "engine/model/config/model_config.hpp"

namespace semantic::engine {

/// Reads `quantization`, else `quantization_config`. What is not supported is a complaint of
/// `section`. Requires: `out.mixture` is read.
void read_quantization(fields& section, model_config& out);

}  // namespace semantic::engine
