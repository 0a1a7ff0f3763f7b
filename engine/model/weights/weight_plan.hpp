// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which tensors a model has, by name and shape, and where in model_weights they go. Used by
// weights.cpp only. Thread: one.

#include "engine/model/config/model_config.hpp"
#include "engine/model/weights/tensor_reader.hpp"
#include "engine/model/weights/weights.hpp"

namespace semantic::engine {

/// Asks `in` for every tensor of the model; what is missing or wrong is in.complaint() afterwards.
/// `out` must stay where it is until its matrices are packed.
void plan_weights(tensor_reader& reader, const model_config& config, model_weights& out);

}  // namespace semantic::engine
