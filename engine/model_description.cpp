// SPDX-License-Identifier: Apache-2.0
#include "engine/model_description.hpp"

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "engine/text/template/template_probe.hpp"

namespace semantic::engine {

std::string name_of_model(const engine_options& options) {
    if (!options.model_id.empty()) return options.model_id;
    const std::filesystem::path directory(options.model_directory);
    // A path that ends in a slash has no filename: the name comes before the slash.
    return (directory.has_filename() ? directory : directory.parent_path()).filename();
}

model_info describe_model(const engine_options& options, const model_config& config,
                          const tokenizer& words, const chat_template& chat,
                          const kernel_table& kernels, const transformer& model,
                          const storage::block_pool& pool, const std::string& why_recipe) {
    const storage::kv_layout& layout = pool.layout();
    int pool_tokens = layout.tokens_in(pool.frame_count(), options.prefill_min_chunk_tokens,
                                       config.context_tokens_max);
    model_info info;
    info.id = name_of_model(options);
    info.family = config.family;
    info.chat_template = chat.family();
    info.chat_template_reason = chat.assumed();
    info.answers = chat.answers();
    info.chat_abilities = abilities_of(chat);
    info.kernels = kernels.name;
    info.layers = static_cast<int>(config.layers.size());
    info.kv_heads = config.kv_heads;
    info.head_dim = layout.k(0).dim;
    info.vocabulary = config.vocabulary;
    info.context_tokens_max = std::min(config.context_tokens_max, pool_tokens);
    if (options.context_tokens > 0)
        info.context_tokens_max = std::min(info.context_tokens_max, options.context_tokens);
    info.bytes_per_token_max = words.bytes_per_token_max();
    info.kv_recipe = storage::name_of(layout.recipe());
    info.kv_recipe_reason = why_recipe;
    info.kv_bits = layout.recipe().mean_bits();
    info.block_tokens = layout.block_tokens();
    info.weight_bytes = model.weight_bytes();
    info.kv_bytes_per_token = layout.bytes_per_token();
    info.pool_bytes = pool.frame_count() * layout.frame_bytes();
    info.pool_agents_4k = pool.frame_count() / layout.frames_for(4096, 0);
    info.pool_agents_16k = pool.frame_count() / layout.frames_for(16384, 0);
    info.created_unix = std::chrono::duration_cast<std::chrono::seconds>(
                            std::chrono::system_clock::now().time_since_epoch())
                            .count();
    return info;
}

}  // namespace semantic::engine
