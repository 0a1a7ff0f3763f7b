// SPDX-License-Identifier: Apache-2.0
#include "engine/model/layout_check.hpp"

#include <string>
#include <utility>

#include "engine/kernels/kernels.hpp"
#include "engine/model/heads/key_means.hpp"

namespace semantic::engine {

namespace {

storage::failure incompatible(std::string message) {
    return {storage::errc::incompatible, std::move(message)};
}

}  // namespace

storage::result<void> check_layout(const model_config& config, const storage::kv_layout& layout,
                                   const key_statistics& keys) {
    if (layout.layer_count() != config.kv_layers() ||
        layout != make_kv_layout(config, layout.recipe(), layout.block_tokens())) {
        return incompatible("the KV layout is not this model's");
    }
    const storage::kv_recipe& recipe = layout.recipe();
    // Rows of 16 bits have no groups.
    if (recipe != storage::kv_recipe(16) && recipe.group_size != group_size) {
        return incompatible("KV groups of " + std::to_string(recipe.group_size) +
                            " are not supported: the kernels are made for groups of " +
                            std::to_string(group_size));
    }
    if (!attends(recipe.k.bits, recipe.v.bits)) {
        return incompatible("keys of " + std::to_string(recipe.k.bits) + " bits with values of " +
                            std::to_string(recipe.v.bits) + " are not supported");
    }
    if (recipe.k.centred && keys.means.size() != key_means::count(config)) {
        return incompatible("the model's key means are needed to store keys less these");
    }
    if (recipe.k.shaped && keys.feedback.size() != key_shaping::count(config)) {
        return incompatible("what the model's queries see is needed to round keys by it");
    }
    if (recipe.k.shaped && config.head_dim > shaped_dim_max) {
        return incompatible("keys of " + std::to_string(config.head_dim) +
                            " elements are too long to be shaped");
    }
    return {};
}

}  // namespace semantic::engine
