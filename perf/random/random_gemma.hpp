// SPDX-License-Identifier: Apache-2.0
#pragma once
// GGUF files of Gemma 4's geometries with random weights in Q4_K: what their speed and their memory
// are measured on, by this server and by others. Every machine makes the same file.
// Thread: any; blocks on files. Errors: std::runtime_error, naming the file.

#include <span>
#include <string>
#include <string_view>

namespace semantic::perf {

/// Sliding layers with heads of 256, and after each `full_every` - 1 of them a full one with heads
/// of 512.
struct gemma_geometry {
    std::string_view name;
    int layers, full_every, hidden, intermediate;
    int heads, kv_heads, full_kv_heads, window;
    bool values_from_keys;                        // of full layers
    int experts, per_token, expert_intermediate;  // 0: no mixture next to the MLP
    int input_width;  // of what each layer gets of a token next to the stream; 0: nothing
    int sharing;      // the last layers, which read others' keys and values
    bool doubles;     // their MLPs are twice as wide
    int vocabulary = 262144;
};

/// Those of published models.
std::span<const gemma_geometry> known_gemmas() noexcept;

/// Writes the file `to`. `tokenizer`: as write_random_hybrid() has it.
/// Requires: rows that a matrix has are multiples of 32, those of embeddings of 256; a last layer
/// that is full; the vocabulary is no smaller than the tokenizer's.
void write_random_gemma(const gemma_geometry& geometry, const std::string& tokenizer, unsigned seed,
                        const std::string& to);

}  // namespace semantic::perf
