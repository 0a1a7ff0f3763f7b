// SPDX-License-Identifier: Apache-2.0
#include "engine/model/weights/weight_plan.hpp"

#include <cmath>
#include <string>
#include <utility>

namespace semantic::engine {

namespace {

/// Plans the projections to queries, keys and values: three tensors, or one (Phi).
void plan_attention(tensor_reader& reader, const model_config& c, const layer_config& kind,
                    const std::string& prefix, layer_weights& layer) {
    const int dim = c.head_dim_of(kind), query_heads = c.heads * dim,
              kv_rows = c.kv_heads_of(kind) * dim;
    const int query_rows = query_heads * (c.attention_gate ? 2 : 1);
    if (reader.contains(prefix + "qkv_proj.weight")) {
        const auto rows = [&](int first, int count, linear_weights& out) {
            reader.part(prefix + "qkv_proj", {{query_rows + 2 * kv_rows}, first}, false, count,
                        c.hidden, out.matrix);
        };
        rows(0, query_rows, layer.q);
        rows(query_rows, kv_rows, layer.k);
        rows(query_rows + kv_rows, kv_rows, layer.v);
    } else {
        reader.linear(prefix + "q_proj", query_rows, c.hidden, c.qkv_bias, layer.q);
        if (kind.kv_source < 0)
            reader.linear(prefix + "k_proj", kv_rows, c.hidden, c.qkv_bias, layer.k);
        if (kind.kv_source < 0 && !kind.values_from_keys)
            reader.linear(prefix + "v_proj", kv_rows, c.hidden, c.qkv_bias, layer.v);
    }
    reader.linear(prefix + "o_proj", c.hidden, query_heads, c.o_bias, layer.o);
    if (c.sinks) reader.vector(prefix + "sinks", c.heads, layer.sinks);
    if (!c.qk_norm && !c.joint_qk_norm) return;
    reader.vector(prefix + "q_norm.weight", c.joint_qk_norm ? query_heads : dim, layer.q_norm);
    if (kind.kv_source < 0)
        return reader.vector(prefix + "k_norm.weight", c.joint_qk_norm ? kv_rows : dim,
                             layer.k_norm);
    // Checkpoints have those of layers that read another layer's too.
    for (const char* name : {"k_proj.weight", "v_proj.weight", "k_norm.weight"})
        reader.leave_out(prefix + name);
}

/// Plans latent attention. kv_b_proj has for each head in turn the rows that expand a latent to its
/// key and to its value. Those of keys are packed transposed, because they multiply queries
/// instead. In files with separate k_b_proj and v_b_proj those of keys are transposed already.
void plan_latent_attention(tensor_reader& reader, const model_config& c, const std::string& prefix,
                           layer_weights& layer) {
    const latent_config& l = c.latent;
    if (l.query_rank == 0) {
        reader.linear(prefix + "q_proj", c.query_width(), c.hidden, false, layer.q);
    } else {
        reader.linear(prefix + "q_a_proj", l.query_rank, c.hidden, c.qkv_bias, layer.q_down);
        reader.vector(prefix + "q_a_layernorm.weight", l.query_rank, layer.q_down_norm);
        reader.linear(prefix + "q_b_proj", c.query_width(), l.query_rank, false, layer.q);
    }
    reader.linear(prefix + "kv_a_proj_with_mqa", l.rank + l.rope_dim, c.hidden, c.qkv_bias,
                  layer.kv_down);
    reader.vector(prefix + "kv_a_layernorm.weight", l.rank, layer.kv_down_norm);
    reader.linear(prefix + "o_proj", c.hidden, c.value_width(), c.o_bias, layer.o);
    layer.k_up.resize(static_cast<std::size_t>(c.heads));
    layer.v_up.resize(static_cast<std::size_t>(c.heads));
    const int turn = l.plain_dim + l.value_dim;
    const bool apart = reader.contains(prefix + "k_b_proj.weight");
    for (int head = 0; head < c.heads; ++head) {
        const auto at = static_cast<std::size_t>(head);
        if (apart) {
            reader.part(prefix + "k_b_proj", {{c.heads, l.rank}, head * l.rank}, false, l.rank,
                        l.plain_dim, layer.k_up[at], precision::as_stored);
            reader.part(prefix + "v_b_proj", {{c.heads, l.value_dim}, head * l.value_dim}, false,
                        l.value_dim, l.rank, layer.v_up[at], precision::as_stored);
            continue;
        }
        const int first = head * turn;
        reader.part(prefix + "kv_b_proj", {{c.heads * turn}, first}, true, l.rank, l.plain_dim,
                    layer.k_up[at], precision::as_stored);
        reader.part(prefix + "kv_b_proj", {{c.heads * turn}, first + l.plain_dim}, false,
                    l.value_dim, l.rank, layer.v_up[at], precision::as_stored);
    }
}

/// Reads the decays -exp(A_log); a GGUF has these themselves.
void plan_decay(tensor_reader& reader, const std::string& prefix, int heads,
                std::vector<float>& out) {
    if (!reader.contains(prefix + "A_log")) return reader.vector(prefix + "A", heads, out);
    reader.vector(prefix + "A_log", heads, out);
    for (float& each : out) each = -std::exp(each);
}

void plan_taps(tensor_reader& reader, const model_config& c, const std::string& name,
               recurrent_weights& out) {
    reader.transposed(name + ".weight", c.convolution.channels, c.convolution.taps, out.taps);
    if (c.convolution.has_bias)
        reader.vector(name + ".bias", c.convolution.channels, out.taps_bias);
}

void plan_short_convolution(tensor_reader& reader, const model_config& c, const std::string& prefix,
                            layer_weights& layer) {
    const bool biases = c.convolution.has_projection_biases;
    reader.linear(prefix + "in_proj", 3 * c.hidden, c.hidden, biases, layer.recurrent.inputs);
    plan_taps(reader, c, prefix + "conv", layer.recurrent);
    reader.linear(prefix + "out_proj", c.hidden, c.hidden, biases, layer.o);
}

/// Plans the delta rule. The inputs' matrices, and those of rates and steps, are separate or fused,
/// ordered by key head.
void plan_delta_rule(tensor_reader& reader, const model_config& c, const std::string& prefix,
                     layer_weights& layer) {
    const recurrence_config& shape = c.recurrence;
    const int heads = shape.value_heads, width = shape.value_width(),
              channels = c.convolution.channels;
    recurrent_weights& out = layer.recurrent;
    if (reader.contains(prefix + "in_proj_qkvz.weight")) {
        reader.linear(prefix + "in_proj_qkvz", channels + width, c.hidden, false, out.inputs);
    } else {
        reader.linear(prefix + "in_proj_qkv", channels, c.hidden, false, out.inputs);
        reader.linear(prefix + "in_proj_z", width, c.hidden, false, out.gate);
    }
    constexpr precision kept = precision::as_stored;
    if (reader.contains(prefix + "in_proj_ba.weight")) {
        reader.linear(prefix + "in_proj_ba", 2 * heads, c.hidden, false, out.rates_and_steps, kept);
    } else {
        reader.linear(prefix + "in_proj_b", heads, c.hidden, false, out.rates, kept);
        reader.linear(prefix + "in_proj_a", heads, c.hidden, false, out.steps, kept);
    }
    plan_taps(reader, c, prefix + "conv1d", out);
    plan_decay(reader, prefix, heads, out.decay);
    reader.vector(prefix + "dt_bias", heads, out.step_bias);
    reader.vector(prefix + "norm.weight", shape.value_dim, out.norm);
    reader.linear(prefix + "out_proj", c.hidden, width, false, layer.o);
}

/// Plans the matrices and vectors of a state space layer.
void plan_state_space(tensor_reader& reader, const model_config& c, const std::string& prefix,
                      layer_weights& layer) {
    const int heads = c.recurrence.value_heads, width = c.recurrence.value_width();
    recurrent_weights& out = layer.recurrent;
    reader.linear(prefix + "in_proj", width + c.convolution.channels + heads, c.hidden, false,
                  out.inputs);
    plan_taps(reader, c, prefix + "conv1d", out);
    plan_decay(reader, prefix, heads, out.decay);
    reader.vector(prefix + "dt_bias", heads, out.step_bias);
    reader.vector(prefix + "D", heads, out.skip);
    reader.vector(prefix + "norm.weight", width, out.norm);
    reader.linear(prefix + "out_proj", c.hidden, width, false, layer.o);
}

/// Plans an MLP. Gate and up are one tensor, one below the other (Granite, Phi), or separate.
void plan_mlp(tensor_reader& reader, const model_config& c, const std::string& prefix, int inner,
              gated_weights& mlp) {
    for (const auto& [both, last] :
         {std::pair{"input_linear", "output_linear"}, std::pair{"gate_up_proj", "down_proj"}}) {
        if (!reader.contains(prefix + both + ".weight")) continue;
        reader.part(prefix + both, {{2 * inner}, 0}, false, inner, c.hidden, mlp.gate.matrix);
        reader.part(prefix + both, {{2 * inner}, inner}, false, inner, c.hidden, mlp.up.matrix);
        return reader.linear(prefix + last, c.hidden, inner, false, mlp.down);
    }
    if (c.activation != activation_kind::relu_squared)
        reader.linear(prefix + "gate_proj", inner, c.hidden, c.mlp_bias, mlp.gate);
    reader.linear(prefix + "up_proj", inner, c.hidden, c.mlp_bias, mlp.up);
    reader.linear(prefix + "down_proj", c.hidden, inner, c.mlp_bias, mlp.down);
}

/// Fused experts as MLX writes them: a stack each of gates, ups and downs, with biases.
void plan_stacked_experts(tensor_reader& reader, const model_config& c, const std::string& prefix,
                          layer_weights& layer) {
    const int inner = c.mixture.intermediate, experts = c.mixture.experts;
    const auto part = [&](const char* name, int expert, int rows, int cols, linear_weights& out) {
        reader.part(prefix + name, {{experts, rows}, expert * rows}, false, rows, cols, out.matrix);
        reader.expert_vector(prefix + name + ".bias", expert, rows, {}, out.bias);
    };
    for (int i = 0; i < experts; ++i) {
        gated_weights& expert = layer.experts[static_cast<std::size_t>(i)];
        part("gate_proj", i, inner, c.hidden, expert.gate);
        part("up_proj", i, inner, c.hidden, expert.up);
        part("down_proj", i, c.hidden, inner, expert.down);
    }
}

/// All experts of a layer in one tensor each for gate and up, in turns, and for down.
void plan_fused_experts(tensor_reader& reader, const model_config& c, const std::string& prefix,
                        layer_weights& layer) {
    const int inner = c.mixture.intermediate;
    reader.linear(prefix + "router", c.mixture.experts, c.hidden, true, layer.router,
                  precision::as_stored);
    layer.experts.resize(static_cast<std::size_t>(c.mixture.experts));
    if (reader.contains(prefix + "experts.gate_proj.weight")) {
        return plan_stacked_experts(reader, c, prefix + "experts.", layer);
    }
    const auto part = [&](const char* name, int expert, int rows, int cols, source_order order,
                          linear_weights& out) {
        reader.expert_matrix(prefix + name, expert, rows, cols, order, out.matrix);
        reader.expert_vector(prefix + name + "_bias", expert, rows, order, out.bias);
    };
    for (int i = 0; i < c.mixture.experts; ++i) {
        gated_weights& expert = layer.experts[static_cast<std::size_t>(i)];
        part("experts.gate_up_proj", i, inner, c.hidden, {true, 2, 0}, expert.gate);
        part("experts.gate_up_proj", i, inner, c.hidden, {true, 2, 1}, expert.up);
        part("experts.down_proj", i, c.hidden, inner, {true, 1, 0}, expert.down);
    }
}

/// Three tensors for each expert or, as MLX writes them, three stacks of all.
void plan_experts(tensor_reader& reader, const model_config& c, const std::string& prefix,
                  layer_weights& layer) {
    const mixture_config& m = c.mixture;
    const std::string stacks = prefix + "switch_mlp.";
    const bool halves = reader.contains(stacks + "gate_up_halves.weight");
    const bool stacked = halves || reader.contains(stacks + "up_proj.weight");
    const bool gated = c.activation != activation_kind::relu_squared;
    layer.experts.resize(static_cast<std::size_t>(m.experts));
    const auto part = [&](const char* name, int expert, int rows, int cols, linear_weights& out) {
        if (stacked) {
            reader.part(stacks + name, {{m.experts, rows}, expert * rows}, false, rows, cols,
                        out.matrix);
        } else {
            reader.linear(prefix + "experts." + std::to_string(expert) + "." + name, rows, cols,
                          false, out);
        }
    };
    const auto half = [&](int expert, int index, linear_weights& out) {
        const int rows = m.intermediate;
        reader.part(stacks + "gate_up_halves", {{m.experts, 2 * rows}, (2 * expert + index) * rows},
                    false, rows, c.hidden, out.matrix);
    };
    for (int i = 0; i < m.experts; ++i) {
        gated_weights& expert = layer.experts[static_cast<std::size_t>(i)];
        if (halves) {
            half(i, 0, expert.gate);
            half(i, 1, expert.up);
        } else {
            if (gated) part("gate_proj", i, m.intermediate, c.hidden, expert.gate);
            part("up_proj", i, m.intermediate, c.hidden, expert.up);
        }
        part("down_proj", i, c.hidden, m.intermediate, expert.down);
    }
}

/// A router and its experts, and the experts that every token takes as one MLP.
void plan_separate_experts(tensor_reader& reader, const model_config& c, const std::string& prefix,
                           layer_weights& layer) {
    const mixture_config& m = c.mixture;
    reader.linear(prefix + "gate", m.experts, c.hidden, false, layer.router, precision::as_stored);
    if (reader.contains(prefix + "expert_bias"))
        reader.vector(prefix + "expert_bias", m.experts, layer.choice_bias);
    if (m.shared_gate)
        reader.linear(prefix + "shared_expert_gate", 1, c.hidden, false, layer.shared_gate,
                      precision::as_stored);
    if (m.shared_intermediate > 0)
        plan_mlp(reader, c, prefix + "shared_experts.", m.shared_intermediate, layer.mlp);
    plan_experts(reader, c, prefix, layer);
}

/// Experts next to the layer's MLP, with the norms of both.
void plan_mixture_beside(tensor_reader& reader, const model_config& c, const std::string& prefix,
                         layer_weights& layer) {
    mixture_norms& norms = layer.norms;
    reader.linear(prefix + "router.proj", c.mixture.experts, c.hidden, false, layer.router,
                  precision::as_stored);
    reader.vector(prefix + "router.scale", c.hidden, norms.router);
    // The model also divides the router's input by sqrt(hidden).
    for (float& each : norms.router) each /= std::sqrt(static_cast<float>(c.hidden));
    reader.vector(prefix + "router.per_expert_scale", c.mixture.experts, norms.expert_scales);
    reader.vector(prefix + "pre_feedforward_layernorm_2.weight", c.hidden, norms.experts);
    reader.vector(prefix + "post_feedforward_layernorm_1.weight", c.hidden, norms.mlp_post);
    reader.vector(prefix + "post_feedforward_layernorm_2.weight", c.hidden, norms.experts_post);
    plan_experts(reader, c, prefix + "mlp.", layer);
}

/// What a layer gets of a token next to the stream, and the stream's factor after the layer.
void plan_additions(tensor_reader& reader, const model_config& c, const std::string& prefix,
                    layer_weights& layer) {
    if (c.layer_input_dim > 0) {
        reader.linear(prefix + "per_layer_input_gate", c.layer_input_dim, c.hidden, false,
                      layer.input.gate);
        reader.linear(prefix + "per_layer_projection", c.hidden, c.layer_input_dim, false,
                      layer.input.projection);
        reader.vector(prefix + "post_per_layer_input_norm.weight", c.hidden, layer.input.post_norm);
    }
    if (!c.layer_scales) return;
    std::vector<float> scale;
    reader.vector(prefix + "layer_scalar", 1, scale);
    if (!scale.empty()) layer.scale = scale[0];
}

/// Published names of the norms differ with their number: with two a layer,
/// post_attention_layernorm comes before the MLP. A layer of one part has one norm.
void plan_norms(tensor_reader& reader, const model_config& c, const layer_config& kind,
                const std::string& prefix, layer_weights& layer) {
    const auto norm = [&](const char* name, std::vector<float>& out) {
        reader.vector(prefix + name + "_layernorm.weight", c.hidden, out);
    };
    if (kind.mixer == mixer_kind::none) return norm("input", layer.mlp_norm);
    if (c.pre_norms) norm("input", layer.mixer_norm);
    if (!kind.feed_forward) return;
    if (c.pre_norms) norm(c.post_norms ? "pre_feedforward" : "post_attention", layer.mlp_norm);
    if (!c.post_norms) return;
    norm("post_attention", layer.mixer_post_norm);
    norm("post_feedforward", layer.mlp_post_norm);
}

/// Plans a layer's mixer by its kind; nothing for a layer without one.
void plan_mixer(tensor_reader& reader, const model_config& c, const layer_config& kind,
                const std::string& prefix, layer_weights& layer) {
    switch (kind.mixer) {
        case mixer_kind::none:
            return;
        case mixer_kind::attention:
            if (c.latent.rank > 0)
                return plan_latent_attention(reader, c, prefix + "self_attn.", layer);
            return plan_attention(reader, c, kind, prefix + "self_attn.", layer);
        case mixer_kind::delta_rule:
            return plan_delta_rule(reader, c, prefix + "linear_attn.", layer);
        case mixer_kind::state_space:
            return plan_state_space(reader, c, prefix + "mamba.", layer);
        case mixer_kind::short_convolution:
            return plan_short_convolution(reader, c, prefix + "conv.", layer);
    }
}

/// Plans all tensors of a layer.
void plan_layer(tensor_reader& reader, const model_config& c, const layer_config& kind,
                const std::string& prefix, layer_weights& layer) {
    plan_norms(reader, c, kind, prefix, layer);
    plan_mixer(reader, c, kind, prefix, layer);
    plan_additions(reader, c, prefix, layer);
    if (!kind.feed_forward) return;
    const bool has_both = kind.mixture && c.mixture.beside_mlp;
    if (has_both) plan_mixture_beside(reader, c, prefix, layer);
    if (!kind.mixture || has_both) {
        const std::string shared = prefix + "mlp.shared_experts.";
        const bool renamed = reader.contains(shared + "input_linear.weight");
        plan_mlp(reader, c, renamed ? shared : prefix + "mlp.", c.intermediate_of(kind), layer.mlp);
    } else if (c.mixture.fused) {
        plan_fused_experts(reader, c, prefix + "mlp.", layer);
    } else {
        plan_separate_experts(reader, c, prefix + "mlp.", layer);
    }
}

}  // namespace

/// The tensor names of all families. A language model inside a multimodal one has another prefix.
void plan_weights(tensor_reader& reader, const model_config& c, model_weights& out) {
    std::string outer, inner = "model.";
    if (reader.contains("language_model.model.embed_tokens.weight")) {
        outer = "language_model.";
        inner = "language_model.model.";
    } else if (reader.contains("model.language_model.embed_tokens.weight")) {
        inner = "model.language_model.";
    }
    reader.matrix(inner + "embed_tokens", c.vocabulary, c.hidden, out.embedding);
    out.layers.resize(c.layers.size());
    for (std::size_t i = 0; i < out.layers.size(); ++i) {
        plan_layer(reader, c, c.layers[i], inner + "layers." + std::to_string(i) + ".",
                   out.layers[i]);
    }
    reader.vector(inner + "norm.weight", c.hidden, out.final_norm);
    if (const int told = c.layer_input_dim * static_cast<int>(c.layers.size()); told > 0) {
        reader.table(inner + "embed_tokens_per_layer.weight", c.vocabulary, told, out.layer_inputs);
        reader.linear(inner + "per_layer_model_projection", told, c.hidden, false,
                      out.layer_input_projection);
        reader.vector(inner + "per_layer_projection_norm.weight", c.layer_input_dim,
                      out.layer_input_norm);
    }
    if (!c.tied_head) reader.matrix(outer + "lm_head", c.vocabulary, c.hidden, out.head);
}

}  // namespace semantic::engine
