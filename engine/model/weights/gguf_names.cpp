// SPDX-License-Identifier: Apache-2.0
#include "engine/model/weights/gguf_names.hpp"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <utility>

#include "engine/model/config/gguf_config.hpp"
#include "engine/model/config/gguf_hybrid.hpp"
#include "engine/model/weights/gguf_blocks.hpp"
#include "engine/model/weights/hybrid_names.hpp"

namespace semantic::engine {

namespace {

using storage::errc;
using storage::failure;
using storage::gguf_type;
using storage::result;

struct name_row {
    std::string_view gguf;  // between "blk.N." and ".weight"
    std::string_view published;
};

constexpr name_row of_model[] = {
    {"token_embd", "model.embed_tokens"},
    {"per_layer_token_embd", "model.embed_tokens_per_layer"},
    {"per_layer_model_proj", "model.per_layer_model_projection"},
    {"per_layer_proj_norm", "model.per_layer_projection_norm"},
    {"output_norm", "model.norm"},
    {"output", "lm_head"},
};

constexpr name_row of_layer[] = {
    {"attn_norm", "input_layernorm"},
    {"post_attention_norm", "post_attention_layernorm"},
    {"post_ffw_norm", "post_feedforward_layernorm"},
    {"post_ffw_norm_1", "post_feedforward_layernorm_1"},
    {"post_ffw_norm_2", "post_feedforward_layernorm_2"},
    {"pre_ffw_norm_2", "pre_feedforward_layernorm_2"},
    {"inp_gate", "per_layer_input_gate"},
    {"proj", "per_layer_projection"},
    {"post_norm", "post_per_layer_input_norm"},
    {"attn_q", "self_attn.q_proj"},
    {"attn_k", "self_attn.k_proj"},
    {"attn_v", "self_attn.v_proj"},
    {"attn_output", "self_attn.o_proj"},
    {"attn_qkv", "self_attn.qkv_proj"},
    {"attn_q_norm", "self_attn.q_norm"},
    {"attn_k_norm", "self_attn.k_norm"},
    {"attn_q_a", "self_attn.q_a_proj"},
    {"attn_q_a_norm", "self_attn.q_a_layernorm"},
    {"attn_q_b", "self_attn.q_b_proj"},
    {"attn_kv_a_mqa", "self_attn.kv_a_proj_with_mqa"},
    {"attn_kv_a_norm", "self_attn.kv_a_layernorm"},
    {"attn_kv_b", "self_attn.kv_b_proj"},
    {"attn_k_b", "self_attn.k_b_proj"},
    {"attn_v_b", "self_attn.v_b_proj"},
    {"ffn_gate", "mlp.gate_proj"},
    {"ffn_up", "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"},
    {"ffn_gate_shexp", "mlp.shared_experts.gate_proj"},
    {"ffn_up_shexp", "mlp.shared_experts.up_proj"},
    {"ffn_down_shexp", "mlp.shared_experts.down_proj"},
};

/// Whole names of Gemma 4's tensors that are no matrices.
constexpr name_row of_gemma4_layer[] = {
    {"layer_output_scale.weight", "layer_scalar"},
    {"ffn_gate_inp.scale", "router.scale"},
    {"ffn_down_exps.scale", "router.per_expert_scale"},
};

/// Tensors that have the matrices of all experts.
constexpr name_row of_experts[] = {
    {"ffn_gate_exps", "gate_proj"},
    {"ffn_up_exps", "up_proj"},
    {"ffn_down_exps", "down_proj"},
    {"ffn_gate_up_exps", "gate_up_halves"},  // of each expert, one below the other
};

template <std::size_t count>
std::string_view look_up(const name_row (&rows)[count], std::string_view name) {
    const auto* found = std::find_if(std::begin(rows), std::end(rows),
                                     [&](const name_row& row) { return row.gguf == name; });
    return found == std::end(rows) ? std::string_view() : found->published;
}

/// Splits "blk.12.attn_q" into "12" and "attn_q"; nothing for other names.
std::optional<std::pair<std::string_view, std::string_view>> split_layer(std::string_view stem) {
    constexpr std::string_view before = "blk.";
    if (!stem.starts_with(before)) return std::nullopt;
    stem.remove_prefix(before.size());
    const std::size_t dot = stem.find('.');
    if (dot == 0 || dot == std::string_view::npos) return std::nullopt;
    const std::string_view number = stem.substr(0, dot);
    if (number.find_first_not_of("0123456789") != std::string_view::npos) return std::nullopt;
    return std::pair{number, stem.substr(dot + 1)};
}

/// The published name of a layer's tensor; "" if the family has no such tensor.
std::string name_in_layer(std::string_view name, std::string_view model_type) {
    const bool one_tensor_of_all = model_type == "gpt_oss";
    const bool is_gemma = model_type == "gemma3_text" || model_type == "gemma4_text";
    if (name == "ffn_norm")
        return is_gemma ? "pre_feedforward_layernorm" : "post_attention_layernorm";
    if (name == "ffn_gate_inp" && model_type == "gemma4_text") return "router.proj";
    if (name == "ffn_up" && model_type == "phi3") return "mlp.gate_up_proj";
    if (name == "ffn_gate_inp") return one_tensor_of_all ? "mlp.router" : "mlp.gate";
    if (const std::string_view experts = look_up(of_experts, name); !experts.empty())
        return (one_tensor_of_all ? "mlp.experts." : "mlp.switch_mlp.") + std::string(experts);
    if (const std::string_view found = look_up(of_layer, name); !found.empty())
        return std::string(found);
    // ffn_gate.7: an expert in a tensor of its own.
    const std::size_t dot = name.rfind('.');
    if (dot == std::string_view::npos) return "";
    const std::string_view expert = name.substr(dot + 1), kind = name.substr(0, dot);
    if (expert.empty() || expert.find_first_not_of("0123456789") != std::string_view::npos)
        return "";
    for (const std::string_view part : {"gate", "up", "down"}) {
        if (kind == "ffn_" + std::string(part))
            return "mlp.experts." + std::string(expert) + "." + std::string(part) + "_proj";
    }
    return "";
}

/// The name that a GGUF's tensor has in the published safetensors files; empty when it is not
/// known.
std::string published_name(std::string_view name, std::string_view model_type) {
    if (const auto layer = split_layer(name); layer && is_hybrid_type(model_type)) {
        const std::string found = hybrid_layer_name(model_type, layer->second);
        if (!found.empty()) return "model.layers." + std::string(layer->first) + "." + found;
    }
    if (name == "token_embd_norm.weight" && model_type.starts_with("lfm2"))
        return "model.norm.weight";
    const std::size_t dot = name.rfind('.');
    if (dot == std::string_view::npos) return "";
    const std::string_view stem = name.substr(0, dot), kind = name.substr(dot);
    const auto layer = split_layer(stem);
    if (layer && model_type == "gemma4_text")
        if (const std::string_view found =
                look_up(of_gemma4_layer, std::string(layer->second) + std::string(kind));
            !found.empty())
            return "model.layers." + std::string(layer->first) + "." + std::string(found);
    if (kind != ".weight" && kind != ".bias") return "";
    if (!layer) {
        const std::string_view found = look_up(of_model, stem);
        return found.empty() ? "" : std::string(found) + std::string(kind);
    }
    const std::string before = "model.layers." + std::string(layer->first) + ".";
    if (layer->second == "attn_sinks") return before + "self_attn.sinks";
    if (layer->second == "exp_probs_b" && kind == ".bias") return before + "mlp.expert_bias";
    const std::string found = name_in_layer(layer->second, model_type);
    return found.empty() ? "" : before + found + std::string(kind);
}

/// The dtype of a GGUF type that is a plain float; nothing for others.
std::optional<storage::dtype> float_type(gguf_type type) {
    switch (type) {
        case gguf_type::f32:
            return storage::dtype::f32;
        case gguf_type::f16:
            return storage::dtype::f16;
        case gguf_type::bf16:
            return storage::dtype::bf16;
        default:
            return std::nullopt;
    }
}

/// Whether the tensor belongs to a layer that predicts further tokens.
bool is_further(std::string_view name, const further_layers& further) {
    const auto layer = split_layer(name);
    if (!layer || further.count == 0) return false;
    std::uint64_t number = 0;
    // Digits only; a number that is too large stays 0, which is no such layer.
    std::from_chars(layer->first.data(), layer->first.data() + layer->first.size(), number);
    return number >= further.first && number - further.first < further.count;
}

/// Whether the rows of this tensor are ordered for rope, in architectures where any are.
bool lies_permuted(std::string_view published) {
    return published.find(".q_proj.") != std::string_view::npos ||
           published.find(".k_proj.") != std::string_view::npos;
}

}  // namespace

further_layers find_further_layers(const storage::gguf_view& view, std::string_view architecture) {
    const auto number = [&](const char* key) {
        const auto at = view.metadata.find(std::string(architecture) + "." + key);
        const auto* held =
            at == view.metadata.end() ? nullptr : std::get_if<std::uint64_t>(&at->second);
        return held == nullptr ? std::uint64_t{0} : *held;
    };
    const std::uint64_t all = number("block_count"), further = number("nextn_predict_layers");
    return further > 0 && further < all ? further_layers{all - further, further} : further_layers{};
}

result<std::vector<stored_tensor>> published_tensors(const storage::gguf_view& view,
                                                     std::string_view architecture,
                                                     const further_layers& further) {
    const gguf_architecture* family = find_architecture(architecture);
    if (family == nullptr) {
        return failure{errc::incompatible, "general.architecture is \"" +
                                               std::string(architecture) + "\", not supported"};
    }
    std::vector<stored_tensor> tensors;
    for (const auto& [name, tensor] : view.tensors) {
        if (name.starts_with("rope_f")) continue;  // rope_freqs, rope_factors_long: in the config
        const auto bad = [&, name = std::string_view(name)](const std::string& why) {
            return failure{errc::incompatible, "tensor " + std::string(name) + why};
        };
        stored_tensor stored;
        stored.name = published_name(name, family->model_type);
        if (is_further(name, further)) stored.name = "mtp." + name;
        if (stored.name.empty()) {
            return bad(" is not one of architecture " + std::string(architecture) +
                       ": it would be left out");
        }
        if (const auto type = float_type(tensor.type)) {
            stored.type = *type;
        } else if (find_block_decoder(tensor.type) != nullptr) {
            stored.blocks = tensor.type;
        } else {
            return bad(std::string(" has type ") + storage::find_block_size(tensor.type)->name +
                       ": supported are " + readable_gguf_types());
        }
        stored.shape = tensor.shape;
        stored.bytes = tensor.bytes;
        stored.rope_neighbours = family->permuted_rope && lies_permuted(stored.name);
        stored.own_name = name;
        tensors.push_back(std::move(stored));
    }
    return tensors;
}

}  // namespace semantic::engine
