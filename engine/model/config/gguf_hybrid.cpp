// SPDX-License-Identifier: Apache-2.0
#include "engine/model/config/gguf_hybrid.hpp"

#include <algorithm>
#include <string>

namespace semantic::engine {

namespace json = boost::json;

bool is_hybrid_type(std::string_view model_type) {
    constexpr std::string_view types[] = {"lfm2",         "lfm2_moe",         "qwen3_next",
                                          "qwen3_5_text", "qwen3_5_moe_text", "granitemoehybrid",
                                          "nemotron_h"};
    return std::ranges::find(types, model_type) != std::end(types);
}

void gguf_hybrid::read() {
    const std::int64_t heads = keys_.needed("attention.head_count");
    const std::vector<std::int64_t> all(layers_, heads), none(layers_, 0);
    kv_heads_ = keys_.integers("attention.head_count_kv", layers_).value_or(all);
    widths_ = keys_.integers("feed_forward_length", layers_).value_or(none);
    // The reader of the config needs at least 1, also if no layer has an MLP.
    config_["intermediate_size"] = std::max<std::int64_t>(std::ranges::max(widths_), 1);
    if (type_ == "lfm2" || type_ == "lfm2_moe") read_short_convolution();
    if (type_.starts_with("qwen")) read_delta_rule();
    if (type_ == "granitemoehybrid" || type_ == "nemotron_h") read_state_space();
    // Where no layer attends, the reader of the config says so.
    config_["num_key_value_heads"] = std::max<std::int64_t>(std::ranges::max(kv_heads_), 1);
    for (const std::int64_t count : kv_heads_)
        if (count != 0 && count != std::ranges::max(kv_heads_))
            keys_.complain(keys_.name_of("attention.head_count_kv") +
                           " differs between layers that attend, which is not supported");
    read_layers();
    read_mixture();
    if (type_ == "granitemoehybrid") {
        read_multipliers(keys_, config_);
        config_["position_embedding_type"] =
            keys_.boolean("rope.scaling.finetuned").value_or(true) ? "rope" : "nope";
    }
}

/// Finds each layer's kind: one without KV heads is recurrent, one without a width has no
/// feed-forward part.
void gguf_hybrid::read_layers() {
    const bool blocks = type_ == "nemotron_h";
    json::array kinds;
    for (std::size_t i = 0; i < layers_; ++i) {
        if (attends(i)) {
            kinds.push_back("full_attention");
        } else if (blocks && widths_[i] > 0) {
            kinds.push_back(keys_.integer("expert_count").value_or(0) > 0 ? "moe" : "mlp");
        } else {
            kinds.push_back("linear_attention");
        }
    }
    config_[blocks ? "layers_block_type" : "layer_types"] = std::move(kinds);
}

void gguf_hybrid::read_short_convolution() {
    config_["conv_L_cache"] = keys_.needed("shortconv.l_cache");
    config_["block_auto_adjust_ff_dim"] = false;  // it is what the layers have
    if (config_.contains("rms_norm_eps")) config_["norm_eps"] = config_.at("rms_norm_eps");
}

/// Reads the shape of the delta rule's heads, and which layers are recurrent and have no keys and
/// values.
void gguf_hybrid::read_delta_rule() {
    const std::int64_t heads = keys_.needed("ssm.time_step_rank");
    const std::int64_t inner = keys_.needed("ssm.inner_size");
    config_["linear_num_key_heads"] = keys_.needed("ssm.group_count");
    config_["linear_num_value_heads"] = heads;
    config_["linear_key_head_dim"] = keys_.needed("ssm.state_size");
    config_["linear_value_head_dim"] = heads > 0 ? inner / heads : 0;
    config_["linear_conv_kernel_dim"] = keys_.needed("ssm.conv_kernel");
    const std::int64_t dim = config_.at("head_dim").to_number<std::int64_t>();
    const std::int64_t rotated = keys_.integer("rope.dimension_count").value_or(dim);
    config_["partial_rotary_factor"] = static_cast<double>(rotated) / static_cast<double>(dim);
    const std::int64_t every = keys_.integer("full_attention_interval").value_or(4);
    const auto recurrent = keys_.integers("attention.recurrent_layers", layers_);
    for (std::size_t i = 0; i < layers_; ++i) {
        const auto number = static_cast<std::int64_t>(i) + 1;
        if (recurrent ? (*recurrent)[i] != 0 : every < 1 || number % every != 0) kv_heads_[i] = 0;
    }
}

/// Reads the shape of the state space's heads, by the names that the model type's config.json has.
void gguf_hybrid::read_state_space() {
    const std::int64_t heads = keys_.needed("ssm.time_step_rank");
    const std::int64_t inner = keys_.needed("ssm.inner_size");
    const bool granite = type_ == "granitemoehybrid";
    config_[granite ? "mamba_n_heads" : "mamba_num_heads"] = heads;
    config_[granite ? "mamba_d_head" : "mamba_head_dim"] = heads > 0 ? inner / heads : 0;
    config_[granite ? "mamba_n_groups" : "n_groups"] = keys_.needed("ssm.group_count");
    config_[granite ? "mamba_d_state" : "ssm_state_size"] = keys_.needed("ssm.state_size");
    config_[granite ? "mamba_d_conv" : "conv_kernel"] = keys_.needed("ssm.conv_kernel");
    if (!granite && config_.contains("rms_norm_eps"))
        config_["layer_norm_epsilon"] = config_.at("rms_norm_eps");
}

/// Reads the experts' number, widths, weights and choice, by the names that the model type's
/// config.json has.
void gguf_hybrid::read_mixture() {
    const std::int64_t experts = keys_.integer("expert_count").value_or(0);
    if (type_ == "granitemoehybrid") {
        // A Granite without experts calls its only feed-forward part the shared expert.
        config_["num_local_experts"] = experts;
        config_["shared_intermediate_size"] =
            keys_.integer("expert_shared_feed_forward_length")
                .value_or(std::max<std::int64_t>(std::ranges::max(widths_), 1));
    }
    if (experts == 0) return;
    const char* count = type_ == "nemotron_h"         ? "n_routed_experts"
                        : type_ == "granitemoehybrid" ? "num_local_experts"
                                                      : "num_experts";
    config_[count] = experts;
    config_["num_experts_per_tok"] = keys_.needed("expert_used_count");
    if (const auto width = keys_.integer("expert_feed_forward_length"))
        config_["moe_intermediate_size"] = *width;
    if (const auto shared = keys_.integer("expert_shared_feed_forward_length")) {
        // Qwen's name for it, and Nemotron's.
        config_["shared_expert_intermediate_size"] = *shared;
        config_["moe_shared_expert_intermediate_size"] = *shared;
    }
    if (const auto dense = keys_.integer("leading_dense_block_count"))
        config_["num_dense_layers"] = *dense;
    // Converters write a scale of 0 where the model has none.
    const double scale = keys_.real("expert_weights_scale").value_or(0.0);
    config_["routed_scaling_factor"] = scale == 0.0 ? 1.0 : scale;
    config_["norm_topk_prob"] = keys_.boolean("expert_weights_norm").value_or(true);
    if (type_ == "nemotron_h") {
        config_["n_group"] =
            std::max<std::int64_t>(keys_.integer("expert_group_count").value_or(1), 1);
        config_["topk_group"] =
            std::max<std::int64_t>(keys_.integer("expert_group_used_count").value_or(1), 1);
    }
    constexpr std::int64_t softmax = 1, sigmoid = 2;
    const bool sigmoids = type_ == "nemotron_h" || type_ == "lfm2_moe";
    const std::int64_t gating = keys_.integer("expert_gating_func").value_or(0);
    if (gating != 0 && gating != (sigmoids ? sigmoid : softmax))
        keys_.complain(keys_.name_of("expert_gating_func") + " is " + std::to_string(gating) +
                       ", which is not supported in this architecture");
}

void read_multipliers(gguf_fields& keys, json::object& config) {
    config["embedding_multiplier"] = keys.real("embedding_scale").value_or(1.0);
    config["residual_multiplier"] = keys.real("residual_scale").value_or(1.0);
    config["attention_multiplier"] = keys.real("attention.scale").value_or(1.0);
    config["logits_scaling"] = keys.real("logit_scale").value_or(1.0);
}

}  // namespace semantic::engine
