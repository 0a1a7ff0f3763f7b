// SPDX-License-Identifier: Apache-2.0
#pragma once
// Names of tensors where families differ: what a published folder or a GGUF calls them, as the plan
// of weights does (weight_plan.cpp). Pure.

#include <string>
#include <string_view>

namespace semantic::engine {

/// The plan's name of a published tensor; the same where the family has no words of its own.
std::string planned_name(std::string_view model_type, std::string_view published);

/// The plan's name of a tensor of a GGUF's layer, after "model.layers.N.": "ssm_conv1d.weight" as
/// "mamba.conv1d.weight". Returns: "" where a hybrid has no such tensor of its own.
std::string hybrid_layer_name(std::string_view model_type, std::string_view name);

}  // namespace semantic::engine
