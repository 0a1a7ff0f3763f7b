#include "engine/model/weights/weight_plan.hpp"

#include <string>

namespace semantic::engine {

namespace {

void plan_attention(tensor_reader& in, const model_config& c, const std::string& prefix,
                    layer_weights& layer) {
    const int kv_rows = c.kv_heads * c.head_dim;
    in.linear(prefix + "q_proj", c.query_width(), c.hidden, c.qkv_bias, layer.q);
    in.linear(prefix + "k_proj", kv_rows, c.hidden, c.qkv_bias, layer.k);
    in.linear(prefix + "v_proj", kv_rows, c.hidden, c.qkv_bias, layer.v);
    in.linear(prefix + "o_proj", c.hidden, c.value_width(), c.o_bias, layer.o);
    if (c.sinks) in.vector(prefix + "sinks", c.heads, layer.sinks);
    if (!c.qk_norm) return;
    in.vector(prefix + "q_norm.weight", c.head_dim, layer.q_norm);
    in.vector(prefix + "k_norm.weight", c.head_dim, layer.k_norm);
}

/// kv_b_proj would expand a latent to every head's key and value, in turns. Its key rows are kept
/// transposed: they carry a query to the latent instead. Where keys and values lie apart
/// (k_b_proj, v_b_proj: a matrix for each head), those of keys are transposed already.
void plan_latent_attention(tensor_reader& in, const model_config& c, const std::string& prefix,
                           layer_weights& layer) {
    const latent_config& l = c.latent;
    if (l.query_rank == 0) {
        in.linear(prefix + "q_proj", c.query_width(), c.hidden, false, layer.q);
    } else {
        in.linear(prefix + "q_a_proj", l.query_rank, c.hidden, c.qkv_bias, layer.q_down);
        in.vector(prefix + "q_a_layernorm.weight", l.query_rank, layer.q_down_norm);
        in.linear(prefix + "q_b_proj", c.query_width(), l.query_rank, false, layer.q);
    }
    in.linear(prefix + "kv_a_proj_with_mqa", l.rank + l.rope_dim, c.hidden, c.qkv_bias,
              layer.kv_down);
    in.vector(prefix + "kv_a_layernorm.weight", l.rank, layer.kv_down_norm);
    in.linear(prefix + "o_proj", c.hidden, c.value_width(), c.o_bias, layer.o);
    layer.k_up.resize(static_cast<std::size_t>(c.heads));
    layer.v_up.resize(static_cast<std::size_t>(c.heads));
    const int turn = l.plain_dim + l.value_dim;
    const bool apart = in.contains(prefix + "k_b_proj.weight");
    for (int head = 0; head < c.heads; ++head) {
        const auto at = static_cast<std::size_t>(head);
        if (apart) {
            in.part(prefix + "k_b_proj", {{c.heads, l.rank}, head * l.rank}, false, l.rank,
                    l.plain_dim, layer.k_up[at], precision::as_stored);
            in.part(prefix + "v_b_proj", {{c.heads, l.value_dim}, head * l.value_dim}, false,
                    l.value_dim, l.rank, layer.v_up[at], precision::as_stored);
            continue;
        }
        const int first = head * turn;
        in.part(prefix + "kv_b_proj", {{c.heads * turn}, first}, true, l.rank, l.plain_dim,
                layer.k_up[at], precision::as_stored);
        in.part(prefix + "kv_b_proj", {{c.heads * turn}, first + l.plain_dim}, false, l.value_dim,
                l.rank, layer.v_up[at], precision::as_stored);
    }
}

void plan_mlp(tensor_reader& in, const model_config& c, const std::string& prefix, int inner,
              gated_weights& mlp) {
    in.linear(prefix + "gate_proj", inner, c.hidden, c.mlp_bias, mlp.gate);
    in.linear(prefix + "up_proj", inner, c.hidden, c.mlp_bias, mlp.up);
    in.linear(prefix + "down_proj", c.hidden, inner, c.mlp_bias, mlp.down);
}

/// Fused experts as MLX writes them: a stack each of gates, ups and downs, with biases.
void plan_stacked_experts(tensor_reader& in, const model_config& c, const std::string& prefix,
                          layer_weights& layer) {
    const int inner = c.mixture.intermediate, experts = c.mixture.experts;
    const auto part = [&](const char* name, int expert, int rows, int cols, linear_weights& out) {
        in.part(prefix + name, {{experts, rows}, expert * rows}, false, rows, cols, out.matrix);
        in.expert_vector(prefix + name + ".bias", expert, rows, {}, out.bias);
    };
    for (int i = 0; i < experts; ++i) {
        gated_weights& expert = layer.experts[static_cast<std::size_t>(i)];
        part("gate_proj", i, inner, c.hidden, expert.gate);
        part("up_proj", i, inner, c.hidden, expert.up);
        part("down_proj", i, c.hidden, inner, expert.down);
    }
}

/// All experts of a layer in one tensor each for gate and up, in turns, and for down.
void plan_fused_experts(tensor_reader& in, const model_config& c, const std::string& prefix,
                        layer_weights& layer) {
    const int inner = c.mixture.intermediate;
    in.linear(prefix + "router", c.mixture.experts, c.hidden, true, layer.router,
              precision::as_stored);
    layer.experts.resize(static_cast<std::size_t>(c.mixture.experts));
    if (in.contains(prefix + "experts.gate_proj.weight")) {
        return plan_stacked_experts(in, c, prefix + "experts.", layer);
    }
    const auto part = [&](const char* name, int expert, int rows, int cols, source_order order,
                          linear_weights& out) {
        in.expert_matrix(prefix + name, expert, rows, cols, order, out.matrix);
        in.expert_vector(prefix + name + "_bias", expert, rows, order, out.bias);
    };
    for (int i = 0; i < c.mixture.experts; ++i) {
        gated_weights& expert = layer.experts[static_cast<std::size_t>(i)];
        part("experts.gate_up_proj", i, inner, c.hidden, {true, 2, 0}, expert.gate);
        part("experts.gate_up_proj", i, inner, c.hidden, {true, 2, 1}, expert.up);
        part("experts.down_proj", i, c.hidden, inner, {true, 1, 0}, expert.down);
    }
}

/// Three tensors for each expert or, as MLX writes them, three stacks of all; and the experts that
/// every token takes as one MLP.
void plan_separate_experts(tensor_reader& in, const model_config& c, const std::string& prefix,
                           layer_weights& layer) {
    const mixture_config& m = c.mixture;
    const std::string stacks = prefix + "switch_mlp.";
    const bool halves = in.contains(stacks + "gate_up_halves.weight");
    const bool stacked = halves || in.contains(stacks + "gate_proj.weight");
    in.linear(prefix + "gate", m.experts, c.hidden, false, layer.router, precision::as_stored);
    if (m.shared_intermediate > 0)
        plan_mlp(in, c, prefix + "shared_experts.", m.shared_intermediate, layer.mlp);
    layer.experts.resize(static_cast<std::size_t>(m.experts));
    const auto part = [&](const char* name, int expert, int rows, int cols, linear_weights& out) {
        if (stacked) {
            in.part(stacks + name, {{m.experts, rows}, expert * rows}, false, rows, cols,
                    out.matrix);
        } else {
            in.linear(prefix + "experts." + std::to_string(expert) + "." + name, rows, cols, false,
                      out);
        }
    };
    const auto half = [&](int expert, int which, linear_weights& out) {
        const int rows = m.intermediate;
        in.part(stacks + "gate_up_halves", {{m.experts, 2 * rows}, (2 * expert + which) * rows},
                false, rows, c.hidden, out.matrix);
    };
    for (int i = 0; i < m.experts; ++i) {
        gated_weights& expert = layer.experts[static_cast<std::size_t>(i)];
        if (halves) {
            half(i, 0, expert.gate);
            half(i, 1, expert.up);
        } else {
            part("gate_proj", i, m.intermediate, c.hidden, expert.gate);
            part("up_proj", i, m.intermediate, c.hidden, expert.up);
        }
        part("down_proj", i, c.hidden, m.intermediate, expert.down);
    }
}

/// Published names of the norms differ with their number: with two a layer,
/// post_attention_layernorm stands before the MLP.
void plan_norms(tensor_reader& in, const model_config& c, const std::string& prefix,
                layer_weights& layer) {
    const auto norm = [&](const char* name, std::vector<float>& out) {
        in.vector(prefix + name + "_layernorm.weight", c.hidden, out);
    };
    norm("input", layer.attention_norm);
    norm(c.post_norms ? "pre_feedforward" : "post_attention", layer.mlp_norm);
    if (!c.post_norms) return;
    norm("post_attention", layer.attention_post_norm);
    norm("post_feedforward", layer.mlp_post_norm);
}

void plan_layer(tensor_reader& in, const model_config& c, const layer_config& kind,
                const std::string& prefix, layer_weights& layer) {
    plan_norms(in, c, prefix, layer);
    if (c.latent.rank > 0) {
        plan_latent_attention(in, c, prefix + "self_attn.", layer);
    } else {
        plan_attention(in, c, prefix + "self_attn.", layer);
    }
    if (!kind.mixture) {
        plan_mlp(in, c, prefix + "mlp.", c.intermediate, layer.mlp);
    } else if (c.mixture.fused) {
        plan_fused_experts(in, c, prefix + "mlp.", layer);
    } else {
        plan_separate_experts(in, c, prefix + "mlp.", layer);
    }
}

}  // namespace

/// The tensor names of all families. A language model inside a multimodal one has another prefix.
void plan_weights(tensor_reader& in, const model_config& c, model_weights& out) {
    std::string outer, inner = "model.";
    if (in.contains("language_model.model.embed_tokens.weight")) {
        outer = "language_model.";
        inner = "language_model.model.";
    } else if (in.contains("model.language_model.embed_tokens.weight")) {
        inner = "model.language_model.";
    }
    in.matrix(inner + "embed_tokens", c.vocabulary, c.hidden, out.embedding);
    out.layers.resize(c.layers.size());
    for (std::size_t i = 0; i < out.layers.size(); ++i) {
        plan_layer(in, c, c.layers[i], inner + "layers." + std::to_string(i) + ".", out.layers[i]);
    }
    in.vector(inner + "norm.weight", c.hidden, out.final_norm);
    if (!c.tied_head) in.matrix(outer + "lm_head", c.vocabulary, c.hidden, out.head);
}

}  // namespace semantic::engine
