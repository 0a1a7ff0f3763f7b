// SPDX-License-Identifier: Apache-2.0
#include "perf/random/random_hybrid.hpp"

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "perf/random/random_gguf.hpp"

namespace semantic::perf {

namespace {

using storage::gguf_type;
using storage::gguf_value_type;

constexpr std::array hybrids{
    hybrid_geometry{"qwen3.5-4b", 32, 4, 2560, 9216, 16, 4, 256, 16, 32, 128, 248320},
};

constexpr int taps = 4;

std::vector<tensor_plan> plan_tensors(const hybrid_geometry& g) {
    std::vector<tensor_plan> all;
    const auto matrix = [&](const std::string& name, int row, int rows,
                            gguf_type type = gguf_type::q4_k) {
        all.push_back(matrix_of(name, row, rows, type));
    };
    const auto vector = [&](const std::string& name, int length, filling values) {
        all.push_back(vector_of(name, length, values));
    };
    const int keys = g.key_heads * g.state_dim, values = g.value_heads * g.state_dim;
    matrix("token_embd", g.hidden, g.vocabulary, gguf_type::q6_k);
    vector("output_norm.weight", g.hidden, filling::ones);
    for (int layer = 0; layer < g.layers; ++layer) {
        const std::string at = "blk." + std::to_string(layer) + ".";
        vector(at + "attn_norm.weight", g.hidden, filling::ones);
        vector(at + "post_attention_norm.weight", g.hidden, filling::ones);
        if ((layer + 1) % g.attention_every == 0) {
            matrix(at + "attn_q", g.hidden, 2 * g.heads * g.head_dim);  // and its gate
            matrix(at + "attn_k", g.hidden, g.kv_heads * g.head_dim);
            matrix(at + "attn_v", g.hidden, g.kv_heads * g.head_dim);
            matrix(at + "attn_output", g.heads * g.head_dim, g.hidden);
            vector(at + "attn_q_norm.weight", g.head_dim, filling::ones);
            vector(at + "attn_k_norm.weight", g.head_dim, filling::ones);
        } else {
            matrix(at + "attn_qkv", g.hidden, 2 * keys + values);
            matrix(at + "attn_gate", g.hidden, values);
            matrix(at + "ssm_alpha", g.hidden, g.value_heads, gguf_type::f32);
            matrix(at + "ssm_beta", g.hidden, g.value_heads, gguf_type::f32);
            matrix(at + "ssm_conv1d", taps, 2 * keys + values, gguf_type::f32);
            vector(at + "ssm_a", g.value_heads, filling::decay);
            vector(at + "ssm_dt.bias", g.value_heads, filling::normal);
            vector(at + "ssm_norm.weight", g.state_dim, filling::ones);
            matrix(at + "ssm_out", values, g.hidden);
        }
        matrix(at + "ffn_gate", g.hidden, g.intermediate);
        matrix(at + "ffn_up", g.hidden, g.intermediate);
        matrix(at + "ffn_down", g.intermediate, g.hidden);
    }
    return all;
}

void add_sizes(gguf_facts& out, const hybrid_geometry& g) {
    const auto number = [&](const char* key, int value) {
        out.add(std::string("qwen35.") + key, static_cast<std::uint32_t>(value));
    };
    out.add("general.architecture", std::string_view("qwen35"));
    out.add("general.name", g.name);
    number("block_count", g.layers);
    number("context_length", 262144);
    number("embedding_length", g.hidden);
    number("feed_forward_length", g.intermediate);
    number("attention.head_count", g.heads);
    number("attention.head_count_kv", g.kv_heads);
    number("attention.key_length", g.head_dim);
    number("attention.value_length", g.head_dim);
    number("full_attention_interval", g.attention_every);
    number("rope.dimension_count", g.head_dim / 4);
    number("ssm.conv_kernel", taps);
    number("ssm.state_size", g.state_dim);
    number("ssm.group_count", g.key_heads);
    number("ssm.time_step_rank", g.value_heads);
    number("ssm.inner_size", g.value_heads * g.state_dim);
    const auto section = static_cast<std::uint32_t>(g.head_dim / 8 / 3);
    std::string sections;
    for (const std::uint32_t each :
         {section + 1, section + 1, static_cast<std::uint32_t>(g.head_dim / 8) - 2 * section - 2,
          0U})
        sections += raw(each);
    out.add("qwen35.rope.dimension_sections", gguf_value_type::i32, 4, sections);
    out.add("qwen35.rope.freq_base", 1e7f);
    out.add("qwen35.attention.layer_norm_rms_epsilon", 1e-6f);
    out.add("general.file_type", std::uint32_t{15});
}

}  // namespace

std::span<const hybrid_geometry> known_hybrids() noexcept { return hybrids; }

void write_random_hybrid(const hybrid_geometry& geometry, const std::string& tokenizer,
                         unsigned seed, const std::string& to) {
    gguf_facts facts;
    add_sizes(facts, geometry);
    facts.add_words(tokenizer, geometry.vocabulary);
    write_random_gguf(facts, plan_tensors(geometry), seed, to);
}

}  // namespace semantic::perf
