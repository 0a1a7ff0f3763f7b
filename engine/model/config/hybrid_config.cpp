// SPDX-License-Identifier: Apache-2.0
#include "engine/model/config/hybrid_config.hpp"

#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include "engine/model/config/mixture_config.hpp"

namespace semantic::engine {

namespace {

constexpr int heads_max = 4096, head_dim_max = 1024, taps_max = 16;

/// Reads the bounds of Mamba-2's steps. transformers 5 writes infinity as {"__float__":
/// "Infinity"}.
void read_step_limits(fields& source, recurrence_config& recurrence) {
    const json::value* limits = source.find("time_step_limit");
    if (limits == nullptr) return;
    const json::array* pair = limits->if_array();
    if (pair == nullptr || pair->size() != 2 || !(*pair)[0].is_number())
        return source.refuse("time_step_limit", *limits, "a list of two numbers is needed");
    recurrence.step_min = (*pair)[0].to_number<float>();
    const json::value& most = (*pair)[1];
    recurrence.step_max = most.is_number() ? most.to_number<float>() : 0.0f;
    const bool endless = most.is_object() || most.is_null();
    if (!(recurrence.step_min >= 0.0f) || (!endless && !(recurrence.step_max > 0.0f)))
        source.refuse("time_step_limit", *limits, "two ascending numbers from 0 on are needed");
}

void read_convolution_of_hidden(fields& source, model_config& out) {
    out.convolution.taps = source.integer("conv_L_cache", 3, 1, taps_max);
    out.convolution.channels = out.hidden;
    out.convolution.has_bias = source.boolean("conv_bias", false);
    out.convolution.has_projection_biases = out.convolution.has_bias;
}

void read_delta_rule(fields& source, model_config& out) {
    recurrence_config& heads = out.recurrence;
    heads.key_heads = source.integer("linear_num_key_heads", 16, 1, heads_max);
    heads.value_heads = source.integer("linear_num_value_heads", 32, 1, heads_max);
    heads.key_dim = source.integer("linear_key_head_dim", 128, 1, head_dim_max);
    heads.value_dim = source.integer("linear_value_head_dim", 128, 1, head_dim_max);
    out.convolution.taps = source.integer("linear_conv_kernel_dim", 4, 1, taps_max);
}

/// Reads the sizes of Mamba-2 as Granite names them. A head's width "auto" means the inner width
/// divided by the heads.
void read_mamba(fields& source, model_config& out) {
    recurrence_config& heads = out.recurrence;
    heads.value_heads = source.integer("mamba_n_heads", 128, 1, heads_max);
    heads.key_heads = source.integer("mamba_n_groups", 1, 1, heads_max);
    heads.key_dim = source.integer("mamba_d_state", 256, 1, head_dim_max);
    const json::value* width = source.find("mamba_d_head");
    const int inner = source.integer("mamba_expand", 2, 1, 64) * out.hidden;
    heads.value_dim = width == nullptr || *width == "auto"
                          ? inner / heads.value_heads
                          : source.integer("mamba_d_head", 64, 1, head_dim_max);
    out.convolution.taps = source.integer("mamba_d_conv", 4, 1, taps_max);
    out.convolution.has_bias = source.boolean("mamba_conv_bias", true);
    if (source.boolean("mamba_proj_bias", false))
        source.refuse("mamba_proj_bias", true, "supported is false");
    read_step_limits(source, heads);
}

/// Reads the shape of a state space model whose config.json lists blocks (Nemotron-H's names).
void read_blocks(fields& source, model_config& out) {
    recurrence_config& heads = out.recurrence;
    heads.value_heads = source.integer("mamba_num_heads", 128, 1, heads_max);
    heads.key_heads = source.integer("n_groups", 8, 1, heads_max);
    heads.key_dim = source.integer("ssm_state_size", 128, 1, head_dim_max);
    heads.value_dim = source.integer("mamba_head_dim", 64, 1, head_dim_max);
    out.convolution.taps = source.integer("conv_kernel", 4, 1, taps_max);
    out.convolution.has_bias = source.boolean("use_conv_bias", true);
    for (const char* name : {"mamba_proj_bias", "use_bias", "mlp_bias"})
        if (source.boolean(name, false)) source.refuse(name, true, "supported is false");
    if (const std::string act = source.string("mamba_hidden_act", "silu"); act != "silu")
        source.refuse("mamba_hidden_act", json::value(act), "supported is silu");
    read_step_limits(source, heads);
}

/// The kind of recurrent layer that a family has, by how its config.json is spelled.
mixer_kind recurrent_kind(recurrent_spelling spelling) {
    switch (spelling) {
        case recurrent_spelling::short_convolution:
            return mixer_kind::short_convolution;
        case recurrent_spelling::linear_attention:
            return mixer_kind::delta_rule;
        case recurrent_spelling::mamba:
        case recurrent_spelling::blocks:
            return mixer_kind::state_space;
        case recurrent_spelling::none:
            break;
    }
    return mixer_kind::attention;
}

/// Sets `out` by a word of `layer_types` or `layers_block_type`: those of published files, and
/// those that transformers 5 saves instead. Returns: false for an unknown word.
bool take_word(std::string_view word, const family_defaults& family, layer_parts& out) {
    const bool blocks = family.recurrent == recurrent_spelling::blocks;
    if (word == "full_attention" || word == "attention") {
        out = {mixer_kind::attention, !blocks, false};
    } else if (word == "linear_attention" || word == "mamba" || word == "conv") {
        out = {recurrent_kind(family.recurrent), !blocks, false};
    } else if (blocks && (word == "mlp" || word == "moe")) {
        out = {mixer_kind::none, true, word == "moe"};
    } else {
        return false;
    }
    return true;
}

/// Reads a list that has a word for each layer's kind. Complains about words that are not known.
std::vector<layer_parts> read_words(fields& source, const family_defaults& family,
                                    const char* name) {
    std::vector<layer_parts> layers;
    const json::value& list = *source.find(name);
    if (!list.is_array()) {
        source.refuse(name, list, "a list is needed");
        return layers;
    }
    for (const json::value& each : list.get_array()) {
        layer_parts parts;
        if (!each.is_string() || !take_word(each.get_string(), family, parts))
            source.refuse(name, each, "a kind of layer that is not supported");
        layers.push_back(parts);
    }
    return layers;
}

/// Reads Nemotron-H's pattern, a letter for each layer: M Mamba-2, * attention, - an MLP, E
/// experts.
std::vector<layer_parts> read_pattern(fields& source, const family_defaults& family) {
    constexpr const char* name = "hybrid_override_pattern";
    std::vector<layer_parts> layers;
    for (const char letter : source.string(name, "")) {
        const char* word = letter == 'M'   ? "mamba"
                           : letter == '*' ? "attention"
                           : letter == '-' ? "mlp"
                           : letter == 'E' ? "moe"
                                           : "";
        layer_parts parts;
        if (!take_word(word, family, parts))
            source.refuse(name, *source.find(name), "supported are M, *, - and E");
        layers.push_back(parts);
    }
    return layers;
}

/// Reads a list of the layers that attend; all others are recurrent.
std::vector<layer_parts> read_indexes(fields& source, const family_defaults& family, int count) {
    constexpr const char* name = "full_attn_idxs";
    std::vector<layer_parts> layers(static_cast<std::size_t>(count),
                                    {recurrent_kind(family.recurrent), true, false});
    const json::value& list = *source.find(name);
    if (!list.is_array()) {
        source.refuse(name, list, "a list is needed");
        return layers;
    }
    for (const json::value& index : list.get_array()) {
        if (!index.is_int64() || index.get_int64() < 0 || index.get_int64() >= count) {
            source.refuse(
                name, index,
                "numbers below num_hidden_layers " + std::to_string(count) + " are needed");
            continue;
        }
        layers[static_cast<std::size_t>(index.get_int64())].mixer = mixer_kind::attention;
    }
    return layers;
}

/// Every n-th layer attends; all others are recurrent.
std::vector<layer_parts> read_interval(fields& source, const family_defaults& family, int count) {
    std::vector<layer_parts> layers;
    const int every = source.integer("full_attention_interval", 4, 1, 4096);
    for (int i = 0; i < count; ++i)
        layers.push_back(
            {(i + 1) % every == 0 ? mixer_kind::attention : recurrent_kind(family.recurrent), true,
             false});
    return layers;
}

}  // namespace

void read_recurrence(fields& source, const family_defaults& family, model_config& out) {
    switch (family.recurrent) {
        case recurrent_spelling::none:
            return;
        case recurrent_spelling::short_convolution:
            return read_convolution_of_hidden(source, out);
        case recurrent_spelling::linear_attention:
            read_delta_rule(source, out);
            break;
        case recurrent_spelling::mamba:
            read_mamba(source, out);
            break;
        case recurrent_spelling::blocks:
            read_blocks(source, out);
            break;
    }
    const recurrence_config& heads = out.recurrence;
    if (heads.key_heads < 1 || heads.value_heads % heads.key_heads != 0 || heads.value_dim < 1) {
        return source.complain(std::to_string(heads.value_heads) + " recurrent heads of width " +
                               std::to_string(heads.value_dim) + " cannot share " +
                               std::to_string(heads.key_heads) + " heads or groups of keys");
    }
    // The convolution runs over queries, keys and values.
    const std::int64_t channels = std::int64_t{2} * heads.key_heads * heads.key_dim +
                                  std::int64_t{heads.value_heads} * heads.value_dim;
    if (channels > dimension_max)
        return source.complain("recurrent heads of " + std::to_string(channels) +
                               " elements together are too wide");
    out.convolution.channels = static_cast<int>(channels);
}

std::vector<layer_parts> read_layer_parts(fields& source, const family_defaults& family,
                                          const model_config& out) {
    const char* list = source.has("layers_block_type") ? "layers_block_type" : "layer_types";
    const bool listed = source.has(list) || source.has("hybrid_override_pattern");
    // 0: as many as are listed.
    const int missing = listed && !source.has("num_hidden_layers") ? 0 : family.layers;
    int count = source.integer("num_hidden_layers", missing, 1, 4096);
    std::vector<layer_parts> layers;
    if (source.has(list)) {
        layers = read_words(source, family, list);
    } else if (source.has("hybrid_override_pattern")) {
        layers = read_pattern(source, family);
    } else if (source.has("full_attn_idxs")) {
        layers = read_indexes(source, family, count);
    } else if (family.recurrent == recurrent_spelling::linear_attention) {
        layers = read_interval(source, family, count);
    } else {
        source.complain(source.path("layer_types") + " is missing");
    }
    if (count == 0) count = static_cast<int>(layers.size());
    if (layers.size() != static_cast<std::size_t>(count)) {
        source.complain(source.path(list) + " has " + std::to_string(layers.size()) +
                        " entries, num_hidden_layers is " + std::to_string(count));
    }
    if (family.recurrent == recurrent_spelling::blocks || out.mixture.experts == 0) return layers;
    const std::vector<bool> mixtures = read_mixture_layers(source, family, count);
    for (std::size_t i = 0; i < layers.size() && i < mixtures.size(); ++i)
        layers[i].mixture = mixtures[i];
    return layers;
}

void read_multipliers(fields& source, model_config& out) {
    out.embedding_scale = static_cast<float>(source.real("embedding_multiplier", 1.0, 0.0, 1e6));
    out.residual_scale = static_cast<float>(source.real("residual_multiplier", 1.0, 0.0, 1e6));
    out.attention_scale = source.real("attention_multiplier", 1.0, 0.0, 1e6);
    out.logit_scale = static_cast<float>(1.0 / source.real("logits_scaling", 1.0, 0.0, 1e6));
}

int adjusted_width(fields& source, int width) {
    width = source.integer("block_ff_dim", width, 1, dimension_max);
    if (!source.boolean("block_auto_adjust_ff_dim", true)) return width;
    const int multiple = source.integer("block_multiple_of", 256, 1, dimension_max);
    const double factor = source.real("block_ffn_dim_multiplier", 1.0, 0.0, 1e3);
    const auto scaled = static_cast<int>(factor * (2 * width / 3));
    return (scaled + multiple - 1) / multiple * multiple;
}

}  // namespace semantic::engine
