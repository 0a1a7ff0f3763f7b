// SPDX-License-Identifier: Apache-2.0
#include "engine/model/config/gguf_gemma.hpp"

#include <algorithm>
#include <vector>

namespace semantic::engine {

namespace {

namespace json = boost::json;

using numbers = std::vector<std::int64_t>;

/// Returns: the common number in `of_layers` of all layers of one kind, with a window (`sliding`)
/// or without; 0 if there is no such layer. Complains if they differ. `slides`: for each layer, not
/// 0 if it has a window.
std::int64_t shared_number(gguf_fields& keys, const char* key, const numbers& of_layers,
                           const numbers& slides, bool sliding) {
    std::int64_t number = 0;
    for (std::size_t i = 0; i < of_layers.size(); ++i) {
        if ((slides[i] != 0) != sliding) continue;
        if (number != 0 && of_layers[i] != number)
            keys.complain(keys.name_of(key) + " differs between layers of one kind");
        number = of_layers[i];
    }
    return number;
}

/// Reads the MLPs' widths. The last `shared` layers, which read other layers' keys and values, may
/// have twice the width.
void read_widths(gguf_fields& keys, std::size_t layers, std::int64_t shared, json::object& config) {
    constexpr const char* key = "feed_forward_length";
    const numbers widths = keys.integers(key, layers).value_or(numbers(layers, 0));
    const bool doubled = widths.back() != widths.front();
    for (std::size_t i = 0; i < layers; ++i) {
        const bool last = static_cast<std::int64_t>(layers - i) <= shared;
        if (widths[i] != widths.front() * (doubled && last ? 2 : 1))
            return keys.complain(keys.name_of(key) +
                                 " differs between layers in a way that is not supported");
    }
    config["intermediate_size"] = widths.front();
    config["use_double_wide_mlp"] = doubled;
}

void read_experts(gguf_fields& keys, json::object& config) {
    const std::int64_t experts = keys.integer("expert_count").value_or(0);
    config["enable_moe_block"] = experts > 0;
    if (experts == 0) return;
    config["num_experts"] = experts;
    config["top_k_experts"] = keys.needed("expert_used_count");
    config["moe_intermediate_size"] = keys.needed("expert_feed_forward_length");
}

}  // namespace

std::int64_t read_gguf_gemma4(gguf_fields& keys, std::int64_t layers,
                              const std::function<bool(const std::string&)>& has_tensor,
                              json::object& config) {
    const auto count = static_cast<std::size_t>(layers);
    const std::int64_t heads = keys.needed("attention.head_count");
    const std::int64_t shared = keys.integer("attention.shared_kv_layers").value_or(0);
    const numbers slides =
        keys.integers("attention.sliding_window_pattern", count).value_or(numbers(count, 0));
    const numbers kv_heads =
        keys.integers("attention.head_count_kv", count).value_or(numbers(count, heads));
    const std::int64_t dim = keys.needed("attention.key_length");
    // No key says that full layers make V of K's projection: they have no matrix for V then. Layers
    // that read others' keys and values have none either, and say nothing.
    json::array kinds;
    bool values_from_keys = false;
    for (std::size_t i = 0; i < count; ++i) {
        kinds.push_back(slides[i] != 0 ? "sliding_attention" : "full_attention");
        values_from_keys =
            values_from_keys || (slides[i] == 0 && static_cast<std::int64_t>(count - i) > shared &&
                                 !has_tensor("blk." + std::to_string(i) + ".attn_v.weight"));
    }
    config["num_attention_heads"] = heads;
    // 0: there is no layer of the kind. The reader of the config needs at least 1.
    config["num_key_value_heads"] = std::max<std::int64_t>(
        shared_number(keys, "attention.head_count_kv", kv_heads, slides, true), 1);
    config["num_global_key_value_heads"] = std::max<std::int64_t>(
        shared_number(keys, "attention.head_count_kv", kv_heads, slides, false), 1);
    config["attention_k_eq_v"] = values_from_keys;
    config["head_dim"] = keys.integer("attention.key_length_swa").value_or(dim);
    config["global_head_dim"] = dim;
    for (const char* kind : {"", "_swa"}) {
        const std::string key = "attention.key_length" + std::string(kind);
        const std::string value = "attention.value_length" + std::string(kind);
        const std::string turned = "rope.dimension_count" + std::string(kind);
        for (const std::string& other : {value, turned})
            if (keys.integer(other).value_or(0) != keys.integer(key).value_or(0) && keys.has(other))
                keys.complain(keys.name_of(other) + " is not " + key + ", which is not supported");
    }
    config["layer_types"] = std::move(kinds);
    config["sliding_window"] = keys.needed("attention.sliding_window");
    config["num_kv_shared_layers"] = shared;
    config["hidden_size_per_layer_input"] =
        keys.integer("embedding_length_per_layer_input").value_or(0);
    config["vocab_size_per_layer_input"] = config.at("vocab_size");
    if (const auto cap = keys.real("final_logit_softcapping"); cap && *cap != 0.0)
        config["final_logit_softcapping"] = *cap;
    config["torch_dtype"] = "bfloat16";  // trained in it: sqrt(hidden) was rounded so
    // Pairs that do not turn have a divisor of 1e30 in rope_freqs.weight.
    config["rope_parameters"] = {
        {"full_attention", {{"rope_theta", keys.real("rope.freq_base").value_or(1e6)}}},
        {"sliding_attention", {{"rope_theta", keys.real("rope.freq_base_swa").value_or(1e4)}}}};
    read_widths(keys, count, shared, config);
    read_experts(keys, config);
    return dim;
}

}  // namespace semantic::engine
