// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the server says of a model that is loaded. Pure but for the clock.

#include <string>

#include "engine/engine.hpp"
#include "engine/kernels/kernels.hpp"
#include "engine/model/config/model_config.hpp"
#include "engine/model/transformer.hpp"
#include "engine/text/template/chat_template.hpp"
#include "engine/text/tokenizer/tokenizer.hpp"
#include "storage/pool/block_pool.hpp"

namespace semantic::engine {

/// What clients call it: what the options say, or the last part of its path.
std::string name_of_model(const engine_options& options);

/// `why_recipe`: what was measured, where nobody chose the recipe; else empty. The fingerprint is
/// the caller's to fill in.
model_info describe_model(const engine_options& options, const model_config& config,
                          const tokenizer& words, const chat_template& chat,
                          const kernel_table& kernels, const transformer& model,
                          const storage::block_pool& pool, const std::string& why_recipe);

}  // namespace semantic::engine
