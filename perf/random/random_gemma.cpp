// SPDX-License-Identifier: Apache-2.0
#include "perf/random/random_gemma.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "perf/random/random_gguf.hpp"

namespace semantic::perf {

namespace {

using storage::gguf_type;
using storage::gguf_value_type;

constexpr std::array gemmas{
    gemma_geometry{"gemma4-31b", 60, 6, 5376, 21504, 32, 16, 4, 1024, true, 0, 0, 0, 0, 0, false},
    gemma_geometry{"gemma4-26b-a4b", 30, 6, 2816, 2112, 16, 8, 2, 1024, true, 128, 8, 704, 0, 0,
                   false},
    gemma_geometry{"gemma4-12b", 48, 6, 3840, 15360, 16, 8, 1, 1024, true, 0, 0, 0, 0, 0, false},
    gemma_geometry{"gemma4-e4b", 42, 6, 2560, 10240, 8, 2, 2, 512, false, 0, 0, 0, 256, 18, false},
    gemma_geometry{"gemma4-e2b", 35, 5, 1536, 6144, 8, 1, 1, 512, false, 0, 0, 0, 256, 20, true},
};

constexpr int sliding_dim = 256, full_dim = 512;

bool is_full(const gemma_geometry& g, int layer) { return (layer + 1) % g.full_every == 0; }
bool is_sharing(const gemma_geometry& g, int layer) { return layer >= g.layers - g.sharing; }
int kv_heads_of(const gemma_geometry& g, int layer) {
    return is_full(g, layer) ? g.full_kv_heads : g.kv_heads;
}
int intermediate_of(const gemma_geometry& g, int layer) {
    return g.intermediate * (g.doubles && is_sharing(g, layer) ? 2 : 1);
}

void plan_attention(std::vector<tensor_plan>& all, const gemma_geometry& g, int layer,
                    const std::string& at) {
    const int dim = is_full(g, layer) ? full_dim : sliding_dim;
    const int kv = kv_heads_of(g, layer) * dim;
    all.push_back(vector_of(at + "attn_norm.weight", g.hidden, filling::ones));
    all.push_back(matrix_of(at + "attn_q", g.hidden, g.heads * dim));
    all.push_back(vector_of(at + "attn_q_norm.weight", dim, filling::small));
    if (!is_sharing(g, layer)) {
        all.push_back(matrix_of(at + "attn_k", g.hidden, kv));
        all.push_back(vector_of(at + "attn_k_norm.weight", dim, filling::small));
        if (!is_full(g, layer) || !g.values_from_keys)
            all.push_back(matrix_of(at + "attn_v", g.hidden, kv));
    }
    all.push_back(matrix_of(at + "attn_output", g.heads * dim, g.hidden));
    all.push_back(vector_of(at + "post_attention_norm.weight", g.hidden, filling::ones));
}

void plan_experts(std::vector<tensor_plan>& all, const gemma_geometry& g, const std::string& at) {
    const auto experts = [&](const std::string& name, int row, int rows) {
        tensor_plan made = matrix_of(at + name, row, rows);
        made.extents.push_back(static_cast<std::uint64_t>(g.experts));
        all.push_back(made);
    };
    all.push_back(matrix_of(at + "ffn_gate_inp", g.hidden, g.experts, gguf_type::f32));
    all.push_back(vector_of(at + "ffn_gate_inp.scale", g.hidden, filling::ones));
    experts("ffn_gate_up_exps", g.hidden, 2 * g.expert_intermediate);
    experts("ffn_down_exps", g.expert_intermediate, g.hidden);
    all.push_back(vector_of(at + "ffn_down_exps.scale", g.experts, filling::ones));
    for (const char* norm : {"pre_ffw_norm_2", "post_ffw_norm_1", "post_ffw_norm_2"})
        all.push_back(vector_of(at + norm + ".weight", g.hidden, filling::ones));
}

void plan_feed_forward(std::vector<tensor_plan>& all, const gemma_geometry& g, int layer,
                       const std::string& at) {
    const int width = intermediate_of(g, layer);
    all.push_back(vector_of(at + "ffn_norm.weight", g.hidden, filling::ones));
    all.push_back(matrix_of(at + "ffn_gate", g.hidden, width));
    all.push_back(matrix_of(at + "ffn_up", g.hidden, width));
    all.push_back(matrix_of(at + "ffn_down", width, g.hidden));
    all.push_back(vector_of(at + "post_ffw_norm.weight", g.hidden, filling::ones));
    if (g.experts > 0) plan_experts(all, g, at);
    if (g.input_width > 0) {
        all.push_back(matrix_of(at + "inp_gate", g.hidden, g.input_width));
        all.push_back(matrix_of(at + "proj", g.input_width, g.hidden));
        all.push_back(vector_of(at + "post_norm.weight", g.hidden, filling::ones));
    }
    all.push_back(vector_of(at + "layer_output_scale.weight", 1, filling::ones));
}

std::vector<tensor_plan> plan_tensors(const gemma_geometry& g) {
    std::vector<tensor_plan> all;
    all.push_back(matrix_of("token_embd", g.hidden, g.vocabulary, gguf_type::q6_k));
    all.push_back(vector_of("output_norm.weight", g.hidden, filling::ones));
    // Of full layers a quarter of the pairs turns.
    tensor_plan divisors = vector_of("rope_freqs.weight", full_dim / 2, filling::ones);
    divisors.given.assign(full_dim / 2, 1e30f);
    std::fill_n(divisors.given.begin(), full_dim / 8, 1.0f);
    all.push_back(divisors);
    if (const int inputs = g.layers * g.input_width; inputs > 0) {
        all.push_back(matrix_of("per_layer_token_embd", inputs, g.vocabulary, gguf_type::q6_k));
        all.push_back(matrix_of("per_layer_model_proj", g.hidden, inputs));
        all.push_back(vector_of("per_layer_proj_norm.weight", g.input_width, filling::ones));
    }
    for (int layer = 0; layer < g.layers; ++layer) {
        const std::string at = "blk." + std::to_string(layer) + ".";
        plan_attention(all, g, layer, at);
        plan_feed_forward(all, g, layer, at);
    }
    return all;
}

/// One number of each layer.
template <class Element, class Number>
std::string layer_list(const gemma_geometry& g, Number number) {
    std::string bytes;
    for (int layer = 0; layer < g.layers; ++layer)
        bytes += raw(static_cast<Element>(number(g, layer)));
    return bytes;
}

void add_sizes(gguf_facts& out, const gemma_geometry& g) {
    const auto number = [&](const char* key, int value) {
        out.add(std::string("gemma4.") + key, static_cast<std::uint32_t>(value));
    };
    const auto layers = static_cast<std::uint64_t>(g.layers);
    out.add("general.architecture", std::string_view("gemma4"));
    out.add("general.name", g.name);
    number("block_count", g.layers);
    number("context_length", 131072);
    number("embedding_length", g.hidden);
    out.add("gemma4.feed_forward_length", gguf_value_type::i32, layers,
            layer_list<std::int32_t>(g, intermediate_of));
    number("attention.head_count", g.heads);
    out.add("gemma4.attention.head_count_kv", gguf_value_type::i32, layers,
            layer_list<std::int32_t>(g, kv_heads_of));
    number("attention.key_length", full_dim);
    number("attention.value_length", full_dim);
    number("attention.key_length_swa", sliding_dim);
    number("attention.value_length_swa", sliding_dim);
    number("attention.sliding_window", g.window);
    out.add("gemma4.attention.sliding_window_pattern", gguf_value_type::boolean, layers,
            layer_list<char>(
                g, [](const gemma_geometry& one, int layer) { return !is_full(one, layer); }));
    number("attention.shared_kv_layers", g.sharing);
    number("embedding_length_per_layer_input", g.input_width);
    number("rope.dimension_count", full_dim);
    number("rope.dimension_count_swa", sliding_dim);
    out.add("gemma4.rope.freq_base", 1e6f);
    out.add("gemma4.rope.freq_base_swa", 1e4f);
    out.add("gemma4.attention.layer_norm_rms_epsilon", 1e-6f);
    out.add("gemma4.final_logit_softcapping", 30.0f);
    if (g.experts > 0) {
        number("expert_count", g.experts);
        number("expert_used_count", g.per_token);
        number("expert_feed_forward_length", g.expert_intermediate);
    }
    out.add("general.file_type", std::uint32_t{15});
}

}  // namespace

std::span<const gemma_geometry> known_gemmas() noexcept { return gemmas; }

void write_random_gemma(const gemma_geometry& geometry, const std::string& tokenizer, unsigned seed,
                        const std::string& to) {
    gguf_facts facts;
    add_sizes(facts, geometry);
    facts.add_words(tokenizer, geometry.vocabulary);
    write_random_gguf(facts, plan_tensors(geometry), seed, to);
}

}  // namespace semantic::perf
