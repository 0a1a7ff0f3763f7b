// SPDX-License-Identifier: Apache-2.0
#pragma once
// Random matrices of GGUF's quantised types, with the scales at which arithmetic goes wrong.

#include <array>
#include <cstring>

#include "engine/model/weights/gguf_blocks.hpp"
#include "engine/model/weights/gguf_packing.hpp"
#include "tests/engine/kernels/support.hpp"

namespace semantic::engine::kernel_tests {

struct block_type {
    const char* name;
    storage::gguf_type type;
    /// Where a block has its halves; -1: it has one or none. MXFP4's exponent is not among them.
    int halves[2];
};

inline constexpr std::array block_types = {
    block_type{"q4_0", storage::gguf_type::q4_0, {0, -1}},
    block_type{"q4_1", storage::gguf_type::q4_1, {0, 2}},
    block_type{"q5_0", storage::gguf_type::q5_0, {0, -1}},
    block_type{"q5_1", storage::gguf_type::q5_1, {0, 2}},
    block_type{"q8_0", storage::gguf_type::q8_0, {0, -1}},
    block_type{"q2_k", storage::gguf_type::q2_k, {80, 82}},
    block_type{"q3_k", storage::gguf_type::q3_k, {108, -1}},
    block_type{"q4_k", storage::gguf_type::q4_k, {0, 2}},
    block_type{"q5_k", storage::gguf_type::q5_k, {0, 2}},
    block_type{"q6_k", storage::gguf_type::q6_k, {208, -1}},
    block_type{"iq4_nl", storage::gguf_type::iq4_nl, {0, -1}},
    block_type{"iq4_xs", storage::gguf_type::iq4_xs, {0, -1}},
    block_type{"mxfp4", storage::gguf_type::mxfp4, {-1, -1}},
};

/// Ordinary ones and these: both zeros, the least subnormal, the largest subnormal, the largest
/// number.
inline half any_scale(source& random, bool extreme) {
    constexpr half edges[] = {0x0000, 0x8000, 0x0001, 0x83ff, 0x7bff, 0xfbff};
    if (extreme && random.below(2) == 0) {
        return edges[random.below(6)];
    }
    return to_half(random.normal() * 0.01f);
}

/// Row-major blocks whose bytes are random, but for scales that are numbers.
inline std::vector<std::byte> random_blocks(const block_type& type, int rows, int cols,
                                            source& random, bool extreme) {
    const storage::gguf_block_size& size = *storage::find_block_size(type.type);
    const std::size_t count =
        static_cast<std::size_t>(rows) * static_cast<std::size_t>(cols) / size.elements;
    std::vector<std::byte> blocks(count * size.bytes);
    for (std::byte& byte : blocks) {
        byte = static_cast<std::byte>(random.below(256));
    }
    for (std::size_t i = 0; i < count; ++i) {
        std::byte* block = blocks.data() + i * size.bytes;
        for (const int at : type.halves) {
            const half scale = any_scale(random, extreme);
            if (at >= 0) {
                std::memcpy(block + at, &scale, sizeof scale);
            }
        }
        if (type.type == storage::gguf_type::mxfp4) {
            block[0] = static_cast<std::byte>(extreme ? random.below(200) : 117 + random.below(8));
        }
    }
    return blocks;
}

inline std::size_t row_bytes_of(storage::gguf_type type, int cols) {
    const storage::gguf_block_size& size = *storage::find_block_size(type);
    return static_cast<std::size_t>(cols) / size.elements * size.bytes;
}

/// Of a type in packed form; the values are dequantize()'s.
inline test_matrix pack_block_matrix(const block_type& type, int rows, int cols,
                                     const std::vector<std::byte>& blocks) {
    test_matrix m;
    m.packed = {*packed_kind(type.type, cols), scale_kind::f16, rows, cols, nullptr};
    std::vector<float> values(static_cast<std::size_t>(rows) * static_cast<std::size_t>(cols));
    dequantize(type.type, blocks, values);
    m.values.assign(values.begin(), values.end());
    m.data = std::make_unique<buffer<std::byte>>(m.packed.bytes());
    pack_blocks(m.packed, {type.type, blocks.data(), row_bytes_of(type.type, cols)}, 0,
                m.packed.tiles(), m.data->data());
    m.packed.data = m.data->data();
    return m;
}

inline test_matrix make_block_matrix(const block_type& type, int rows, int cols, source& random,
                                     bool extreme = false) {
    return pack_block_matrix(type, rows, cols, random_blocks(type, rows, cols, random, extreme));
}

}  // namespace semantic::engine::kernel_tests
