// SPDX-License-Identifier: Apache-2.0
#pragma once
// The fingerprint of a loaded model: a hash of weights, configuration, tokenizer, template and KV
// recipe, everything that shapes its KV. Two models may read each other's memories only if their
// fingerprints are equal. Blocks: reads the model's configuration and tokenizer files.

#include "engine/engine.hpp"
#include "engine/model/config/model_config.hpp"
#include "engine/model/transformer.hpp"
#include "engine/recipe/recipe_choice.hpp"
#include "engine/text/template/chat_template.hpp"
#include "storage/pool/kv_layout.hpp"
#include "storage/types/ids.hpp"

namespace semantic::engine {

storage::block_hash fingerprint_of(const engine_options& options, const chat_template& chat,
                                   const transformer& model, const model_config& config_read,
                                   const storage::kv_layout& layout, const key_statistics& keys);

}  // namespace semantic::engine
