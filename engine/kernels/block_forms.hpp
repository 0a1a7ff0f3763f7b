// SPDX-License-Identifier: Apache-2.0
#pragma once
// The packed forms of GGUF's quantised types, as every table of kernels and the packer use them:
// nearly as large as the file's blocks, with the same weights.
//
// A record is a header and the codes of its groups of 64 inputs, for 16 rows. What lies at [16] is
// one of each row. Of 64 inputs (q4_0, q4_1, q5_0, q5_1, q8_0, iq4_nl) the header is
//     { half scale[2][16]; half offset[2][16] }             offset: q4_1 and q5_1
// and of 256 inputs, whose parts' scales and offsets are products,
//     { half d[16]; half dmin[16]; i8 scale[parts][16]; i8 minimum[parts / 2][16][2] }
//                                          dmin: q2_k, q4_k and q5_k; minimum: q4_k and q5_k
// with scale = d * scale[part], offset = -(dmin * minimum[part]). q3_k has its scales as minimums
// are, [parts / 2][16][2], and so has q2_k, with both in one byte, minimum << 4 | scale. A part is
// 16 inputs (q2_k, q3_k, q6_k) or 32.
//
// The codes of a group, [16][4] meaning byte (r, i) of row r and input i of four (a quad). Codes
// that share a byte are those of different parts, so that a mask alone makes them numbers which are
// a power of two too high for all of a part:
//     nibbles          [8][16][4]: quad j low, quad 8 + j high
//     nibbles, fifths  the nibbles, of quads 8 + j the high four bits of five; then [2][16][4]:
//                      of quads 4i + j the highest bit, of quads 8 + 4i + j the lowest, where
//                      fifth_bit() says
//     bytes            [16][16][4]
//     twos             [4][16][4]: bits 2p and 2p + 1 of byte j are of part p's quad j
//     threes           of parts 2i and 2i + 1 [3][16][4]: byte j has quad j of the former in bits 0
//                      to 2, of the latter in bits 3 to 5; of both quads 3, the low two bits are in
//                      bits 6 and 7 of bytes 0 and 1, the high ones in bits 6 and 7 of byte 2
//     sixes            of parts 2i and 2i + 1 [4][16][4]: byte j has the low four bits of quad j of
//                      the former low, the high four of the latter's high; after all four parts
//                      [4][16][4]: of bytes 2k of those before, the former's high two bits in bits
//                      4 and 5, the latter's low two in 2 and 3; of bytes 2k + 1 in 6 and 7 and in
//                      0 and 1
// A code becomes an integer: code - zero; iq4's levels are looked up.
// weight = scale * integer + offset.

#include <cstddef>
#include <cstdint>

#include "engine/kernels/kernels.hpp"

namespace semantic::engine {

enum class code_planes { nibbles, nibbles_fifths, bytes, twos, threes, sixes };

struct block_form {
    code_planes planes;
    int code_bytes;  // of one group of 64 inputs
    int groups;      // of 64 inputs in a record: 1 or 4
    int part;        // inputs that share a scale and an offset: 16 or 32
    bool has_offsets;
    int zero;     // integer = code - zero
    int largest;  // code there is
    int header_bytes;

    /// The number of parts of a group of 64 inputs.
    constexpr int parts() const noexcept { return group_size / part; }
    /// Whether scales and offsets are integers times a factor of the record.
    constexpr bool has_integer_scales() const noexcept { return groups > 1; }
    /// Whether integers are multiplied with their scale before they are added up, which is exact
    /// for parts of 16 inputs with codes of few bits.
    constexpr bool has_integer_totals() const noexcept {
        return planes == code_planes::twos || planes == code_planes::threes;
    }
    constexpr int record_bytes() const noexcept { return header_bytes + groups * code_bytes; }
};

/// The number of the bit, in a byte of fifths, that belongs to quad j of a part.
constexpr int fifth_bit(int part, int j) noexcept {
    constexpr int bits[2][4] = {{4, 6, 2, 7}, {3, 5, 1, 0}};
    return bits[part][j % 4];
}

/// The values of iq4's codes 0 to 15, plus 128.
alignas(16) inline constexpr std::uint8_t iq4_raised_levels[16] = {
    1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241};

constexpr bool is_block_kind(weight_kind kind) noexcept { return kind >= weight_kind::q4_0; }
constexpr bool is_looked_up(weight_kind kind) noexcept {
    return kind == weight_kind::iq4_nl || kind == weight_kind::iq4_xs;
}

/// The forms of weight_kind::q4_0 and the kinds after it, in their order.
inline constexpr block_form block_forms[] = {
    {code_planes::nibbles, 512, 1, 32, false, 8, 15, 64},
    {code_planes::nibbles, 512, 1, 32, true, 0, 15, 128},
    {code_planes::nibbles_fifths, 640, 1, 32, false, 16, 31, 64},
    {code_planes::nibbles_fifths, 640, 1, 32, true, 0, 31, 128},
    {code_planes::bytes, 1024, 1, 32, false, 128, 255, 64},
    {code_planes::nibbles, 512, 1, 32, false, 128, 255, 64},
    // 32 bytes of the header are unused: codes start a cache line
    {code_planes::nibbles, 512, 4, 32, false, 128, 255, 192},
    {code_planes::twos, 256, 4, 16, true, 0, 3, 320},
    {code_planes::threes, 384, 4, 16, false, 4, 7, 288},
    {code_planes::nibbles, 512, 4, 32, true, 0, 15, 320},
    {code_planes::nibbles_fifths, 640, 4, 32, true, 0, 31, 320},
    {code_planes::sixes, 768, 4, 16, false, 32, 63, 320},  // 32 bytes are unused, as in iq4_xs
};

/// Requires: is_block_kind(kind).
constexpr block_form block_form_of(weight_kind kind) noexcept {
    return block_forms[static_cast<int>(kind) - static_cast<int>(weight_kind::q4_0)];
}

/// Writes row `row` of w to out [cols], with the bits of kernel_table::embed_row. Requires:
/// is_block_kind(w.kind).
void embed_block_row(const packed_matrix& w, int row, float* out);
/// One result of kernel_table::linear_quant, with its bits: the product of row `row` with
/// activations q [cols], scales [cols/64]. Requires: is_block_kind(w.kind).
float block_product(const packed_matrix& w, int row, const std::int8_t* q, const float* scales);

}  // namespace semantic::engine
