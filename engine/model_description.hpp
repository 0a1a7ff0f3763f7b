// SPDX-License-Identifier: Apache-2.0
#pragma once
// The description of a loaded model that clients get. Pure, except for the clock.

#include <string>

#include "engine/engine.hpp"
#include "engine/kernels/kernels.hpp"
#include "engine/model/config/model_config.hpp"
#include "engine/model/transformer.hpp"
#include "engine/text/template/chat_template.hpp"
#include "engine/text/tokenizer/tokenizer.hpp"
#include "storage/pool/block_pool.hpp"

namespace semantic::engine {

/// The model's name for clients: options.model_id, or the last part of the model's path.
std::string name_of_model(const engine_options& options);

/// Fills the description from the model's parts. `why_recipe`: the measurement that chose the KV
/// recipe; empty if the options did. The caller fills in the fingerprint.
model_info describe_model(const engine_options& options, const model_config& config,
                          const tokenizer& words, const chat_template& chat,
                          const kernel_table& kernels, const transformer& model,
                          const storage::block_pool& pool, const std::string& why_recipe);

}  // namespace semantic::engine
