// SPDX-License-Identifier: Apache-2.0
#include "engine/model/weights/hybrid_names.hpp"

#include <algorithm>
#include <iterator>
#include <span>

namespace semantic::engine {

namespace {

struct renaming {
    std::string_view from, to;
};

// Parts of names, replaced one after the other.
constexpr renaming lfm2_names[] = {
    {"model.embedding_norm.", "model.norm."},
    {".operator_norm.", ".input_layernorm."},
    {".ffn_norm.", ".post_attention_layernorm."},
    {".feed_forward.", ".mlp."},
    {".w1.", ".gate_proj."},
    {".w2.", ".down_proj."},
    {".w3.", ".up_proj."},
    {".self_attn.out_proj.", ".self_attn.o_proj."},
    {".q_layernorm.", ".q_norm."},
    {".k_layernorm.", ".k_norm."},
};

constexpr renaming qwen_names[] = {
    {".mlp.shared_expert.", ".mlp.shared_experts."},
};

constexpr renaming granite_names[] = {
    {".shared_mlp.", ".mlp.shared_experts."},
    {".block_sparse_moe.router.layer.", ".mlp.gate."},
    {".block_sparse_moe.input_linear.", ".mlp.switch_mlp.gate_up_halves."},
    {".block_sparse_moe.output_linear.", ".mlp.switch_mlp.down_proj."},
};

constexpr renaming glm_names[] = {
    {".mlp.gate.e_score_correction_bias", ".mlp.expert_bias"},
};

constexpr renaming gemma4_names[] = {
    {".experts.gate_up_proj", ".mlp.switch_mlp.gate_up_halves.weight"},
    {".experts.down_proj", ".mlp.switch_mlp.down_proj.weight"},
};

constexpr renaming nemotron_names[] = {
    {"backbone.embeddings.", "model.embed_tokens."},
    {"backbone.norm_f.", "model.norm."},
    {"backbone.", "model."},
    {".mixer.q_proj.", ".self_attn.q_proj."},
    {".mixer.k_proj.", ".self_attn.k_proj."},
    {".mixer.v_proj.", ".self_attn.v_proj."},
    {".mixer.o_proj.", ".self_attn.o_proj."},
    {".mixer.gate.e_score_correction_bias", ".mlp.expert_bias"},
    {".mixer.gate.", ".mlp.gate."},
    {".mixer.experts.", ".mlp.experts."},
    {".mixer.shared_experts.", ".mlp.shared_experts."},
    {".mixer.up_proj.", ".mlp.up_proj."},
    {".mixer.down_proj.", ".mlp.down_proj."},
    {".mixer.", ".mamba."},
};

/// Experts of one tensor without a kind, gates above ups.
constexpr renaming qwen_stacks[] = {
    {".mlp.experts.gate_up_proj", ".mlp.switch_mlp.gate_up_halves.weight"},
    {".mlp.experts.down_proj", ".mlp.switch_mlp.down_proj.weight"},
};

constexpr renaming recurrent_layer[] = {
    {"shortconv.in_proj.weight", "conv.in_proj.weight"},
    {"shortconv.in_proj.bias", "conv.in_proj.bias"},
    {"shortconv.conv.weight", "conv.conv.weight"},
    {"shortconv.conv.bias", "conv.conv.bias"},
    {"shortconv.out_proj.weight", "conv.out_proj.weight"},
    {"shortconv.out_proj.bias", "conv.out_proj.bias"},
    {"exp_probs_b.bias", "mlp.expert_bias"},
    {"ffn_gate_inp_shexp.weight", "mlp.shared_expert_gate.weight"},
};

constexpr renaming delta_rule_layer[] = {
    {"attn_qkv.weight", "linear_attn.in_proj_qkv.weight"},
    {"attn_gate.weight", "linear_attn.in_proj_z.weight"},
    {"ssm_in.weight", "linear_attn.in_proj_qkvz.weight"},
    {"ssm_beta.weight", "linear_attn.in_proj_b.weight"},
    {"ssm_alpha.weight", "linear_attn.in_proj_a.weight"},
    {"ssm_ba.weight", "linear_attn.in_proj_ba.weight"},
    {"ssm_conv1d.weight", "linear_attn.conv1d.weight"},
    {"ssm_a", "linear_attn.A"},
    {"ssm_dt.bias", "linear_attn.dt_bias"},
    {"ssm_norm.weight", "linear_attn.norm.weight"},
    {"ssm_out.weight", "linear_attn.out_proj.weight"},
};

constexpr renaming state_space_layer[] = {
    {"ssm_in.weight", "mamba.in_proj.weight"},
    {"ssm_conv1d.weight", "mamba.conv1d.weight"},
    {"ssm_conv1d.bias", "mamba.conv1d.bias"},
    {"ssm_a", "mamba.A"},
    {"ssm_d", "mamba.D"},
    {"ssm_dt.bias", "mamba.dt_bias"},
    {"ssm_norm.weight", "mamba.norm.weight"},
    {"ssm_out.weight", "mamba.out_proj.weight"},
};

std::span<const renaming> names_of(std::string_view model_type) {
    if (model_type.starts_with("lfm2")) return lfm2_names;
    if (model_type.starts_with("qwen3_5") || model_type == "qwen3_next") return qwen_names;
    if (model_type == "granitemoehybrid") return granite_names;
    if (model_type == "nemotron_h") return nemotron_names;
    if (model_type.starts_with("glm4_moe")) return glm_names;
    if (model_type == "gemma4_text") return gemma4_names;
    return {};
}

std::string_view look_up(std::span<const renaming> rows, std::string_view name) {
    const auto found =
        std::ranges::find_if(rows, [&](const renaming& row) { return row.from == name; });
    return found == rows.end() ? std::string_view() : found->to;
}

}  // namespace

std::string planned_name(std::string_view model_type, std::string_view published) {
    std::string name(published);
    for (const renaming& row : names_of(model_type)) {
        const std::size_t at = name.find(row.from);
        if (at != std::string::npos) name.replace(at, row.from.size(), row.to);
    }
    if (model_type.starts_with("qwen3_5"))
        for (const renaming& row : qwen_stacks)
            if (name.ends_with(row.from))
                name.replace(name.size() - row.from.size(), row.from.size(), row.to);
    // One norm a layer, before whatever it is made of: "model.layers.3.norm.weight".
    constexpr std::string_view norm = ".norm.weight";
    if (model_type == "nemotron_h" && name.ends_with(norm) &&
        name.find_first_of("0123456789") != std::string::npos && name.find("mamba") == name.npos)
        name.replace(name.size() - norm.size(), norm.size(), ".input_layernorm.weight");
    return name;
}

std::string hybrid_layer_name(std::string_view model_type, std::string_view name) {
    const bool delta = model_type.starts_with("qwen3_5") || model_type == "qwen3_next";
    const bool state_space = model_type == "granitemoehybrid" || model_type == "nemotron_h";
    std::string_view found;
    if (delta) found = look_up(delta_rule_layer, name);
    if (state_space) found = look_up(state_space_layer, name);
    if (found.empty()) found = look_up(recurrent_layer, name);
    return std::string(found);
}

}  // namespace semantic::engine
