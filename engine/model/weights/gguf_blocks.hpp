// SPDX-License-Identifier: Apache-2.0
#pragma once
// Decodes the blocks of GGUF's quantised tensors. All types that are supported have one form:
// integers ("codes") of at most 8 bits in groups of 16 or 32, each group with a scale and an
// offset,
//     weight = scale * code + offset
// in float32, in this order of operations. So a block may be repacked for kernels without changing
// a weight. Stateless; thread: any.
// Source: ggml's block structures (ggml-common.h) and the reference reader of the gguf package
// (gguf/quants.py), whose float32 results these are bit for bit.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "storage/files/gguf.hpp"

namespace semantic::engine {

struct decoded_block {
    std::array<std::int8_t, 256> codes;  // the first `elements` of find_block_size()
    std::array<float, 16> scales;        // one for each group
    std::array<float, 16> offsets;       // one for each group; 0 if the type has none
};

struct block_decoder {
    int group;  // elements that share a scale and an offset: 16 or 32
    /// Decodes one block of the type.
    void (*decode)(const std::byte* block, decoded_block& out);
};
/// The decoder of a quantised type; null for floats, integers and types that are not supported.
const block_decoder* find_block_decoder(storage::gguf_type type) noexcept;

/// Whether dequantize() supports the type: floats of 32 and 16 bits, and types with a decoder.
bool can_dequantize(storage::gguf_type type) noexcept;
/// The names of these types, for error messages: "F32, F16, BF16, Q4_0, ...".
std::string readable_gguf_types();
/// Converts whole blocks of `out.size()` elements to floats. Requires: can_dequantize(type).
void dequantize(storage::gguf_type type, std::span<const std::byte> blocks, std::span<float> out);

}  // namespace semantic::engine
