// SPDX-License-Identifier: Apache-2.0
#pragma once
// Lists the tensors of a model, by name and shape, and their members in model_weights. Used by
// weights.cpp only. Thread: one.

#include "engine/model/config/model_config.hpp"
#include "engine/model/weights/tensor_reader.hpp"
#include "engine/model/weights/weights.hpp"

namespace semantic::engine {

/// Asks `reader` for every tensor of the model. Afterwards reader.complaint() says what is missing
/// or wrong, if anything. `out` must not be moved until its matrices are packed.
void plan_weights(tensor_reader& reader, const model_config& config, model_weights& out);

}  // namespace semantic::engine
