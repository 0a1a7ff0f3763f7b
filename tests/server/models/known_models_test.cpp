// SPDX-License-Identifier: Apache-2.0
// What the server says of a model that it has not loaded: from its files' headers alone.

#include "server/models/known_models.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/gguf_tokenizer.hpp"
#include "tests/support/temp_dir.hpp"

namespace semantic::server {
namespace {

using testing::HasSubstr;
using tests::gguf_writer;

constexpr std::uint64_t hidden = 32, words = 8;

/// A Llama of one layer, with no weight but zeros.
struct tiny_file {
    std::string architecture = "llama", tokenizer = "gpt2", pre = "gpt-2";
    std::uint32_t query_type = static_cast<std::uint32_t>(storage::gguf_type::f32);
    std::size_t query_bytes = hidden * hidden * 4;

    std::string bytes() const {
        gguf_writer file;
        file.pair("general.architecture", std::string_view(architecture));
        const auto pair = [&](const char* key, std::uint32_t value) {
            file.pair(architecture + "." + key, value);
        };
        pair("block_count", 1);
        pair("embedding_length", hidden);
        pair("feed_forward_length", hidden);
        pair("attention.head_count", 1);
        pair("context_length", 256);
        file.pair(architecture + ".attention.layer_norm_rms_epsilon", storage::gguf_value_type::f32,
                  gguf_writer::raw(1e-5F));
        file.pair("tokenizer.ggml.model", std::string_view(tokenizer));
        file.pair("tokenizer.ggml.pre", std::string_view(pre));
        file.pair("tokenizer.ggml.tokens",
                  std::vector<std::string>{"<|end|>", "a", "b", "c", "d", "e", "f", "g"});
        tests::add_numbers(file, "tokenizer.ggml.token_type", {3, 1, 1, 1, 1, 1, 1, 1});
        file.pair("tokenizer.ggml.merges", std::vector<std::string>{});
        file.pair("tokenizer.ggml.eos_token_id", std::uint32_t{0});
        file.pair("tokenizer.chat_template",
                  std::string_view("{% for m in messages %}{{ m.content }}{% endfor %}"));
        const auto matrix = [&](const char* name, std::uint64_t rows) {
            file.tensor(name, {hidden, rows}, 0, std::string(hidden * rows * 4, '\0'));
        };
        matrix("token_embd.weight", words);
        file.tensor("blk.0.attn_q.weight", {hidden, hidden}, query_type,
                    std::string(query_bytes, '\0'));
        for (const char* name :
             {"blk.0.attn_k.weight", "blk.0.attn_v.weight", "blk.0.attn_output.weight",
              "blk.0.ffn_gate.weight", "blk.0.ffn_up.weight", "blk.0.ffn_down.weight"})
            matrix(name, hidden);
        for (const char* name :
             {"blk.0.attn_norm.weight", "blk.0.ffn_norm.weight", "output_norm.weight"})
            file.tensor(name, {hidden}, 0, std::string(hidden * 4, '\0'));
        return file.bytes();
    }
};

std::string fault_of(const tiny_file& file, const config& settings = {}) {
    const tests::temp_dir dir;
    std::ofstream(dir / "tiny.gguf", std::ios::binary) << file.bytes();
    known_models models(registry({{"tiny", {}, dir / "tiny.gguf", {}, {}}}, 0), settings);
    return models.facts(0, 0).fault;
}

TEST(known_models, say_why_a_file_will_not_load_and_what_would) {
    EXPECT_EQ(fault_of({}), "");
    tiny_file other;
    other.architecture = "mamba";
    EXPECT_THAT(fault_of(other), HasSubstr("\"mamba\": supported are llama, "));
    tiny_file known;
    known.architecture = "gemma3n";
    EXPECT_THAT(fault_of(known), HasSubstr("\"gemma3n\": its AltUp streams, LAuReL branches and "
                                           "sparse gates are not computed; supported are llama, "));
    tiny_file typed;
    typed.query_type = static_cast<std::uint32_t>(storage::gguf_type::i8);
    typed.query_bytes = hidden * hidden;
    EXPECT_THAT(fault_of(typed), HasSubstr("blk.0.attn_q.weight has type I8: supported are F32, "));
    EXPECT_THAT(fault_of(typed), HasSubstr(", MXFP4"));
    tiny_file cut;
    cut.pre = "falcon";
    EXPECT_THAT(fault_of(cut), HasSubstr("'falcon' is not known; --tokenizer-pre can name one of"));
    config named;
    named.tokenizer_pre = "gpt-2";
    EXPECT_EQ(fault_of(cut, named), "");
    tiny_file spelled;
    spelled.tokenizer = "rwkv";
    EXPECT_THAT(fault_of(spelled), HasSubstr("'rwkv' is not supported (supported: gpt2, llama"));
}

}  // namespace
}  // namespace semantic::server
