// SPDX-License-Identifier: Apache-2.0
#pragma once
// Models of real geometry with random weights: what speed is measured on, made on any machine in
// seconds instead of downloaded. Every table of kernels gives the same files.
// Thread: any; blocks on files. Errors: std::runtime_error, naming the file.

#include <span>
#include <string>
#include <string_view>

namespace semantic::perf {

/// A Llama model with tied embeddings.
struct model_geometry {
    std::string_view name;
    int layers, hidden, intermediate, heads, kv_heads, head_dim, vocabulary;
    double rope_theta;
};

/// Those of published models, smallest first: 135m, 1b, 3b.
std::span<const model_geometry> known_geometries() noexcept;

struct random_model_options {
    model_geometry geometry;
    int bits = 4;  // of the weights: 4 and 8 are MLX affine with groups of 64, 16 is bf16
    unsigned seed = 1;
    /// A Hugging Face folder whose tokenizer files are taken over. Ids that its vocabulary lacks
    /// get a text of their own ("w49151"), so that every token of an answer is a delta.
    std::string tokenizer;
};

/// Writes config.json, model.safetensors, tokenizer.json and tokenizer_config.json to the folder
/// `to`, which is made if need be. Weights are normal with a deviation of 0.02.
/// Requires: hidden, intermediate and the heads' widths are multiples of 64; bits are 4, 8 or 16;
/// the vocabulary is no smaller than the tokenizer's.
void write_random_model(const random_model_options& options, const std::string& to);

}  // namespace semantic::perf
