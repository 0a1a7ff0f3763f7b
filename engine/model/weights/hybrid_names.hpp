// SPDX-License-Identifier: Apache-2.0
#pragma once
// Translates names of tensors that differ between families, in published folders and in GGUFs, into
// the names of the plan of weights (weight_plan.cpp). Pure.

#include <string>
#include <string_view>

namespace semantic::engine {

/// The plan's name of a published tensor; the same name if the family has none of its own.
std::string planned_name(std::string_view model_type, std::string_view published);

/// The plan's name of a GGUF tensor in a layer of a hybrid, to follow "model.layers.N.": for
/// "ssm_conv1d.weight" "mamba.conv1d.weight". Returns: "" if it is not a tensor of hybrids only.
std::string hybrid_layer_name(std::string_view model_type, std::string_view name);

}  // namespace semantic::engine
