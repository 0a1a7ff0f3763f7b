#pragma once
// The packed forms of GGUF's quantised types, as every table and the packer use them: nearly as
// large as the file's blocks, and every weight as it is there.
//
// A record is a header and the codes of its groups of 64 inputs, for 16 rows. What lies at [16] is
// one of each row. Of 64 inputs (q4_0, q4_1, q5_0, q5_1, q8_0, iq4_nl) the header is
//     { half scale[2][16]; half offset[2][16] }             offset: q4_1 and q5_1
// and of 256 inputs, whose parts' scales are products,
//     { half d[16]; half dmin[16]; i8 scale[parts][16]; i8 minimum[parts][16] }
//                                          dmin: q2_k, q4_k and q5_k; minimum: q4_k and q5_k
// with scale = d * scale[part], offset = -(dmin * minimum[part]); q2_k has both in one byte,
// minimum << 4 | scale. A part is 16 inputs (q2_k, q3_k, q6_k) or 32.
//
// The codes of a group, [16][4] meaning byte (r, i) of row r and input i of four (a quad):
//     nibbles          of each half (32 inputs) [4][16][4]: quad j low, quad 4 + j high
//     nibbles, fifths  of each half the nibbles, then [16][4]: bit k of the byte is of quad k
//     bytes            [16][16][4]
//     twos             of each part (16 inputs) [16][4]: bits 2k and 2k + 1 are of quad k
//     twos, thirds     the twos of four parts, then [2][16][4]: of each half bit k is of quad k
//     sixes            of each part [2][16][4]: low four bits of quad j low, of quad 2 + j high,
//                      then the high two as twos
// A code becomes an integer: code - zero; iq4's levels are looked up; q2_k's code is multiplied by
// its part's scale, so that a group has one scale, d. weight = scale * integer + offset.

#include <cstddef>
#include <cstdint>

#include "engine/kernels/kernels.hpp"

namespace semantic::engine {

enum class code_planes { nibbles, nibbles_fifths, bytes, twos, twos_thirds, sixes };

struct block_form {
    code_planes planes;
    int code_bytes;    // of one group of 64 inputs
    int groups;        // of 64 inputs in a record: 1 or 4
    int part;          // inputs that share a scale and an offset in the file: 16 or 32
    int scale_parts;   // scales of a group of 64 inputs
    int offset_parts;  // offsets of a group of 64 inputs, 0: none
    int zero;          // integer = code - zero
    int largest;       // code there is
    int header_bytes;

    constexpr int record_bytes() const noexcept { return header_bytes + groups * code_bytes; }
};

/// iq4's levels, 128 too high: of the codes 0 to 15.
alignas(16) inline constexpr std::uint8_t iq4_raised_levels[16] = {
    1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241};

constexpr bool is_block_kind(weight_kind kind) noexcept { return kind >= weight_kind::q4_0; }
constexpr bool is_looked_up(weight_kind kind) noexcept {
    return kind == weight_kind::iq4_nl || kind == weight_kind::iq4_xs;
}

/// Of weight_kind::q4_0 and those that follow, in their order.
inline constexpr block_form block_forms[] = {
    {code_planes::nibbles, 512, 1, 32, 2, 0, 8, 15, 64},
    {code_planes::nibbles, 512, 1, 32, 2, 2, 0, 15, 128},
    {code_planes::nibbles_fifths, 640, 1, 32, 2, 0, 16, 31, 64},
    {code_planes::nibbles_fifths, 640, 1, 32, 2, 2, 0, 31, 128},
    {code_planes::bytes, 1024, 1, 32, 2, 0, 128, 255, 64},
    {code_planes::nibbles, 512, 1, 32, 2, 0, 128, 255, 64},
    // 32 bytes of the header are unused: codes start a cache line
    {code_planes::nibbles, 512, 4, 32, 2, 0, 128, 255, 192},
    {code_planes::twos, 256, 4, 16, 1, 4, 0, 45, 320},  // largest: with its scale
    {code_planes::twos_thirds, 384, 4, 16, 4, 0, 4, 7, 288},
    {code_planes::nibbles, 512, 4, 32, 2, 2, 0, 15, 320},
    {code_planes::nibbles_fifths, 640, 4, 32, 2, 2, 0, 31, 320},
    {code_planes::sixes, 768, 4, 16, 4, 0, 32, 63, 320},  // 32 bytes are unused, as in iq4_xs
};

/// Requires: is_block_kind(kind).
constexpr block_form block_form_of(weight_kind kind) noexcept {
    return block_forms[static_cast<int>(kind) - static_cast<int>(weight_kind::q4_0)];
}

/// Row `row` of w as kernel_table::embed_row gives it: out [cols]. Requires: is_block_kind(w.kind).
void embed_block_row(const packed_matrix& w, int row, float* out);
/// One sum of kernel_table::linear_quant, as it is defined there: of row `row` and of activations
/// q [cols], scales [cols/64]. Requires: is_block_kind(w.kind).
float block_product(const packed_matrix& w, int row, const std::int8_t* q, const float* scales);

}  // namespace semantic::engine
