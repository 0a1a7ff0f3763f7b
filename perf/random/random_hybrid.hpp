// SPDX-License-Identifier: Apache-2.0
#pragma once
// GGUF files of hybrids of real geometry with random weights in Q4_K: what their speed is measured
// on, by this server and by others. Every machine makes the same file.
// Thread: any; blocks on files. Errors: std::runtime_error, naming the file.

#include <span>
#include <string>
#include <string_view>

namespace semantic::perf {

/// A model of Qwen3.5's architecture with tied embeddings: layers of the gated delta rule, and
/// after each `attention_every` - 1 of them one of attention.
struct hybrid_geometry {
    std::string_view name;
    int layers, attention_every, hidden, intermediate;
    int heads, kv_heads, head_dim;          // of attention
    int key_heads, value_heads, state_dim;  // of the delta rule; keys and values are as wide
    int vocabulary;
};

/// Those of published models.
std::span<const hybrid_geometry> known_hybrids() noexcept;

/// Writes the file `to`. `tokenizer`: a Hugging Face folder with a byte-level BPE, whose words and
/// chat template are taken over; ids that it lacks get a text of their own ("w4096").
/// Requires: rows that a matrix has are multiples of 256; the vocabulary is no smaller than the
/// tokenizer's.
void write_random_hybrid(const hybrid_geometry& geometry, const std::string& tokenizer,
                         unsigned seed, const std::string& to);

}  // namespace semantic::perf
