// SPDX-License-Identifier: Apache-2.0
#include "engine/model/config/mixture_config.hpp"

#include <cstdint>
#include <string>
#include <utility>

namespace semantic::engine {

namespace {

/// Reads a mixture of routed experts, chosen by a softmax over all, and shared ones, which every
/// token takes (DeepSeek-V2).
void read_routed_mixture(fields& section, const family_defaults& family, model_config& out) {
    mixture_config& mixture = out.mixture;
    mixture.fused = false;
    mixture.softmax_over_all = true;
    mixture.experts = section.integer("n_routed_experts", family.experts, 1, 4096);
    if (!section.has("num_experts_per_tok")) section.complain("num_experts_per_tok is missing");
    mixture.per_token = section.integer("num_experts_per_tok", 1, 1, mixture.experts);
    mixture.intermediate = section.integer("moe_intermediate_size", 1407, 1, dimension_max);
    const bool none =
        section.raw().contains("n_shared_experts") && !section.has("n_shared_experts");
    mixture.shared_intermediate =
        mixture.intermediate * (none ? 0 : section.integer("n_shared_experts", 2, 0, 1024));
    mixture.scale = static_cast<float>(section.real("routed_scaling_factor", 1.0, 0.0, 1e6));
    if (const std::string by = section.string("scoring_func", "softmax"); by != "softmax")
        section.refuse("scoring_func", json::value(by), "supported is softmax");
    // Implementations disagree about this field, and no published model has it.
    if (section.boolean("norm_topk_prob", false))
        section.refuse("norm_topk_prob", true, "supported is false");
    const std::string method = section.string("topk_method", "greedy");
    if (method == "greedy") return;
    if (method != "group_limited_greedy") {
        return section.refuse("topk_method", json::value(method),
                              "supported are greedy and group_limited_greedy");
    }
    mixture.groups = section.integer("n_group", 1, 1, mixture.experts);
    mixture.groups_per_token = section.integer("topk_group", 1, 1, mixture.groups);
    if (mixture.experts % mixture.groups != 0) {
        return section.refuse("n_group", json::value(mixture.groups),
                              "it must divide n_routed_experts " + std::to_string(mixture.experts));
    }
    const int within = mixture.experts / mixture.groups * mixture.groups_per_token;
    if (mixture.per_token > within) {
        section.refuse("num_experts_per_tok", json::value(mixture.per_token),
                       "the groups of a token have " + std::to_string(within) + " experts");
    }
}

/// Reads experts in tensors of their own, chosen by a softmax over all. With `norm_topk_prob` their
/// weights are divided by their sum, which equals a softmax over the chosen ones.
void read_separate_mixture(fields& section, const family_defaults& family, model_config& out) {
    mixture_config& mixture = out.mixture;
    mixture.fused = false;
    const char* newer = "num_local_experts";  // as transformers 5 writes num_experts
    mixture.experts = section.integer(section.has("num_experts") ? "num_experts" : newer,
                                      family.experts, 1, 4096);
    if (section.integer(newer, mixture.experts, 1, 4096) != mixture.experts)
        section.refuse(newer, *section.find(newer),
                       "num_experts is " + std::to_string(mixture.experts));
    if (!section.has("num_experts_per_tok") && family.experts_per_token > mixture.experts)
        return section.complain("num_experts_per_tok is missing");
    mixture.per_token =
        section.integer("num_experts_per_tok", family.experts_per_token, 1, mixture.experts);
    mixture.intermediate =
        section.integer("moe_intermediate_size", family.expert_intermediate, 1, dimension_max);
    if (family.shared_gate) {
        mixture.shared_gate = true;
        mixture.shared_intermediate =
            section.integer("shared_expert_intermediate_size", 512, 1, dimension_max);
    }
    const bool normalised = section.boolean("norm_topk_prob", family.normalised_choice);
    if (family.sigmoid_epsilon == 0.0) {
        mixture.softmax_over_all = !normalised;
        return;
    }
    mixture.sigmoid = true;
    mixture.normalised = normalised;
    mixture.norm_epsilon = static_cast<float>(family.sigmoid_epsilon);
    mixture.scale = static_cast<float>(section.real("routed_scaling_factor", 1.0, 0.0, 1e6));
}

/// Reads experts that are chosen by sigmoids plus a bias, maybe within groups, and an MLP that
/// every token takes. A Nemotron-H without such layers may have these fields, too.
void read_sigmoid_mixture(fields& source, const family_defaults& family, model_config& out) {
    mixture_config& mixture = out.mixture;
    mixture.fused = false;
    mixture.sigmoid = true;
    mixture.experts = source.integer("n_routed_experts", family.experts, 1, 4096);
    mixture.per_token = source.integer("num_experts_per_tok", family.experts_per_token, 1, 4096);
    mixture.intermediate =
        source.integer("moe_intermediate_size", family.expert_intermediate, 1, dimension_max);
    mixture.shared_intermediate =
        family.leading_dense ? mixture.intermediate * source.integer("n_shared_experts", 1, 0, 1024)
                             : source.integer("moe_shared_expert_intermediate_size",
                                              family.expert_intermediate, 0, dimension_max);
    for (const auto& [name, value] :
         {std::pair{"scoring_func", "sigmoid"}, {"topk_method", "noaux_tc"}})
        if (const std::string said = source.string(name, value); said != value)
            source.refuse(name, json::value(said), std::string("supported is ") + value);
    mixture.normalised = source.boolean("norm_topk_prob", family.normalised_choice);
    mixture.norm_epsilon = static_cast<float>(family.sigmoid_epsilon);
    mixture.scale = static_cast<float>(source.real("routed_scaling_factor", 1.0, 0.0, 1e6));
    mixture.groups = source.integer("n_group", 1, 1, mixture.experts);
    mixture.groups_per_token = source.integer("topk_group", 1, 1, mixture.groups);
    if (source.has("moe_latent_size"))
        source.refuse("moe_latent_size", *source.find("moe_latent_size"),
                      "experts in a latent space are not supported");
    if (mixture.experts % mixture.groups != 0)
        return source.refuse("n_group", json::value(mixture.groups),
                             "it must divide n_routed_experts " + std::to_string(mixture.experts));
    const int within = mixture.experts / mixture.groups * mixture.groups_per_token;
    if (mixture.per_token > within)
        source.refuse("num_experts_per_tok", json::value(mixture.per_token),
                      "the groups of a token have " + std::to_string(within) + " experts");
}

/// Reads Granite's experts, weighted by a softmax over the chosen ones, and an MLP that every token
/// takes. Without experts that is the layer's only MLP.
void read_mixture_beside_mlp(fields& source, const family_defaults& family, model_config& out) {
    const int shared = source.integer("shared_intermediate_size", 1024, 1, dimension_max);
    const int experts = source.integer("num_local_experts", family.experts, 0, 4096);
    if (experts == 0) {
        out.intermediate = shared;
        return;
    }
    out.mixture.fused = false;
    out.mixture.experts = experts;
    out.mixture.per_token =
        source.integer("num_experts_per_tok", family.experts_per_token, 1, experts);
    out.mixture.intermediate = out.intermediate;
    out.mixture.shared_intermediate = shared;
}

/// Sets `mixture` to false for the layers in `mlp_only_layers`.
void leave_out_dense_layers(fields& section, std::vector<bool>& mixture) {
    const json::value* dense = section.find("mlp_only_layers");
    if (dense == nullptr) return;
    if (!dense->is_array()) return section.refuse("mlp_only_layers", *dense, "a list is needed");
    const auto count = static_cast<std::int64_t>(mixture.size());
    for (const json::value& layer : dense->get_array()) {
        if (!layer.is_int64() || layer.get_int64() < 0 || layer.get_int64() >= count)
            return section.refuse(
                "mlp_only_layers", layer,
                "numbers below num_hidden_layers " + std::to_string(count) + " are needed");
        mixture[static_cast<std::size_t>(layer.get_int64())] = false;
    }
}

/// Reads `mlp_layer_types`, a word for each layer, into `mixture`.
void take_words(fields& source, std::vector<bool>& mixture) {
    constexpr const char* name = "mlp_layer_types";
    const json::value& words = *source.find(name);
    if (!words.is_array() || words.get_array().size() != mixture.size())
        return source.refuse(name, words, "a list of a word for each layer is needed");
    for (std::size_t i = 0; i < mixture.size(); ++i) {
        const json::value& word = words.get_array()[i];
        if (word != "dense" && word != "sparse")
            return source.refuse(name, word, "supported are dense and sparse");
        mixture[i] = word == "sparse";
    }
}

}  // namespace

std::vector<bool> read_mixture_layers(fields& section, const family_defaults& family, int count) {
    // A family says it by a word for each layer, by the number of leading layers without experts,
    // or by an interval.
    std::vector<bool> mixture(static_cast<std::size_t>(count), family.experts > 0);
    if (section.has("mlp_layer_types") && family.leading_dense) {
        take_words(section, mixture);
    } else if (family.leading_dense) {
        const int missing = family.sigmoid_epsilon > 0.0 ? 1 : 0;
        const int first = section.integer("first_k_dense_replace", missing, 0, 4096);
        const int every = section.integer("moe_layer_freq", 1, 1, 4096);
        for (int i = 0; i < count; ++i)
            mixture[static_cast<std::size_t>(i)] = i >= first && i % every == 0;
    } else if (family.recurrent == recurrent_spelling::short_convolution) {
        const int dense = section.integer("num_dense_layers", 2, 0, 4096);
        for (int i = 0; i < count; ++i) mixture[static_cast<std::size_t>(i)] = i >= dense;
    } else if (family.expert_intermediate > 0) {
        const int every = section.integer("decoder_sparse_step", 1, 1, 4096);
        for (int i = 0; i < count; ++i) mixture[static_cast<std::size_t>(i)] = (i + 1) % every == 0;
        leave_out_dense_layers(section, mixture);
    }
    return mixture;
}

void read_mixture(fields& section, const family_defaults& family, model_config& out) {
    if (family.experts == 0) return;
    const bool blocks = family.recurrent == recurrent_spelling::blocks;
    if (blocks || (family.leading_dense && family.sigmoid_epsilon > 0.0))
        return read_sigmoid_mixture(section, family, out);
    if (family.latent) return read_routed_mixture(section, family, out);
    if (family.recurrent == recurrent_spelling::mamba)
        return read_mixture_beside_mlp(section, family, out);
    if (family.expert_intermediate > 0) return read_separate_mixture(section, family, out);
    // Experts that are fused in one tensor (GPT-OSS).
    out.activation_limit = static_cast<float>(section.real("swiglu_limit", 7.0, 0.0, 1e6));
    out.activation_alpha = static_cast<float>(section.real("swiglu_alpha", 1.702, 0.0, 1e6));
    out.mixture.experts = section.integer("num_local_experts", family.experts, 1, 4096);
    out.mixture.per_token =
        section.integer("num_experts_per_tok", family.experts_per_token, 1, out.mixture.experts);
    out.mixture.intermediate = out.intermediate;
}

}  // namespace semantic::engine
