// SPDX-License-Identifier: Apache-2.0
#include "engine/model/weights/gguf_packing.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "engine/kernels/block_forms.hpp"
#include "storage/types/assert.hpp"

namespace semantic::engine {

namespace {

using storage::gguf_type;

constexpr std::size_t plane = 4 * lane_count;  // bytes of a quad of 16 rows

// Bytes are handled four at a time, in words of little-endian memory.
std::uint32_t word_at(const std::byte* at, std::size_t index) {
    std::uint32_t word;
    std::memcpy(&word, at + 4 * index, sizeof word);
    return word;
}

int packed_byte_at(const std::byte* at, std::size_t i) { return std::to_integer<int>(at[i]); }

/// Writes one row's part of a record. A record has the weights of 16 rows, interleaved, for some
/// inputs: a header with scales, then planes of codes. Four codes of a row are a quad.
class record_row {
  public:
    record_row(std::byte* record, std::size_t lane) : record_(record), lane_(lane) {}

    /// The half at `from` as the header's number `index`.
    void put_half(std::size_t index, const std::byte* from) {
        std::memcpy(record_ + (index * lane_count + lane_) * sizeof(half), from, sizeof(half));
        std::uint16_t bits;
        std::memcpy(&bits, from, sizeof bits);
        finite_ = finite_ && (bits & 0x7c00u) != 0x7c00u;
    }
    /// A byte of the header, counted in bytes of 16 rows.
    void put_byte(std::size_t index, int value) {
        record_[index * lane_count + lane_] = static_cast<std::byte>(value);
    }
    /// A byte of the header where two parts' bytes of a row are neighbours.
    void put_paired_byte(std::size_t index, int value) {
        record_[index / 2 * 2 * lane_count + lane_ * 2 + index % 2] = static_cast<std::byte>(value);
    }
    /// The quads of a plane of codes that begins at `at`, counted in bytes.
    void put_quad(std::size_t at, std::uint32_t quad) {
        std::memcpy(record_ + at + lane_ * sizeof quad, &quad, sizeof quad);
    }

    /// The exponent of a power of two; 255 is the format's NaN.
    void put_exponent(std::size_t index, int exponent) {
        put_byte(index, exponent);
        finite_ = finite_ && exponent != 255;
    }
    /// Whether every scale so far is a number.
    bool finite() const { return finite_; }

  private:
    std::byte* record_;
    std::size_t lane_;
    bool finite_ = true;
};

constexpr std::uint32_t low_nibbles = 0x0f0f0f0fu, low_bits = 0x01010101u;

/// The codes of a group of 64 inputs, one a byte, as 16 words. The functions below write them in
/// the order of code_planes in the kernels: put_nibbles() 4 bits each, put_fives() 5, and so on.
using group_codes = std::array<std::uint32_t, 16>;

void put_nibbles(const group_codes& codes, std::size_t at, record_row& to) {
    for (std::size_t j = 0; j < 8; ++j) to.put_quad(at + j * plane, codes[j] | codes[8 + j] << 4);
}

void put_fives(const group_codes& codes, std::size_t at, record_row& to) {
    std::uint32_t fifths[2] = {0, 0};
    for (std::size_t j = 0; j < 8; ++j) {
        const std::uint32_t low = codes[j], high = codes[8 + j];
        to.put_quad(at + j * plane, (low & low_nibbles) | (high >> 1 & low_nibbles) << 4);
        fifths[j / 4] |= (low >> 4 & low_bits) << fifth_bit(0, static_cast<int>(j)) |
                         (high & low_bits) << fifth_bit(1, static_cast<int>(j));
    }
    for (std::size_t i = 0; i < 2; ++i) to.put_quad(at + (8 + i) * plane, fifths[i]);
}

void put_twos(const group_codes& codes, std::size_t at, record_row& to) {
    for (std::size_t j = 0; j < 4; ++j)
        to.put_quad(at + j * plane,
                    codes[j] | codes[4 + j] << 2 | codes[8 + j] << 4 | codes[12 + j] << 6);
}

void put_threes(const group_codes& codes, std::size_t at, record_row& to) {
    for (std::size_t i = 0; i < 2; ++i) {
        const std::uint32_t* low = &codes[8 * i];
        const std::uint32_t* high = low + 4;
        const std::uint32_t last[3] = {(low[3] & 3 * low_bits) << 6, (high[3] & 3 * low_bits) << 6,
                                       (low[3] >> 2 & low_bits) << 6 | (high[3] >> 2 & low_bits)
                                                                           << 7};
        for (std::size_t j = 0; j < 3; ++j)
            to.put_quad(at + (3 * i + j) * plane, low[j] | high[j] << 3 | last[j]);
    }
}

/// Writes a group's codes of 6 bits from byte `at` of the record: eight lines of the low four bits,
/// and four lines of the high two.
void put_sixes(const group_codes& codes, std::size_t at, record_row& to) {
    for (std::size_t i = 0; i < 4; ++i) {
        std::uint32_t twos = 0;
        for (std::size_t k = 0; k < 2; ++k) {
            const std::size_t line = 2 * i + k, quad = line / 4 * 8 + line % 4;
            const std::uint32_t low = codes[quad], high = codes[quad + 4];
            to.put_quad(at + line * plane, (low & low_nibbles) | (high >> 2 & low_nibbles) << 4);
            twos |= (low >> 4 & 3 * low_bits) << (4 + 2 * k) | (high & 3 * low_bits) << (2 - 2 * k);
        }
        to.put_quad(at + (8 + i) * plane, twos);
    }
}

/// Bits 4k to 4k + 3 of `bits`, each as a byte of the result. Bit i belongs to input i.
std::uint32_t bits_of_quad(std::uint32_t bits, std::size_t k) {
    // The product has copies of the four bits, shifted so that bit i of one is at bit 8 * i.
    return (bits >> 4 * k & 15u) * 0x00204081u & low_bits;
}

/// Packs the types with blocks of 32, two of which make a record. A block begins with `halves` f16
/// numbers: its scale and, if 2, its offset.
template <std::size_t block_bytes, std::size_t halves, bool fifth>
void pack_small(const std::byte* blocks, record_row& to) {
    group_codes codes;
    for (std::size_t part = 0; part < 2; ++part) {
        const std::byte* at = blocks + part * block_bytes;
        for (std::size_t i = 0; i < halves; ++i) to.put_half(2 * i + part, at + 2 * i);
        at += 2 * halves;
        const std::uint32_t fifths = fifth ? word_at(at, 0) : 0;
        if constexpr (fifth) at += 4;
        for (std::size_t j = 0; j < 4; ++j) {
            codes[8 * part + j] = word_at(at, j) & low_nibbles;
            codes[8 * part + 4 + j] = word_at(at, j) >> 4 & low_nibbles;
        }
        for (std::size_t j = 0; fifth && j < 8; ++j)
            codes[8 * part + j] |= bits_of_quad(fifths, j) << 4;
    }
    constexpr std::size_t header = halves * 2 * lane_count * sizeof(half);
    fifth ? put_fives(codes, header, to) : put_nibbles(codes, header, to);
}

/// A block has an f16 scale and 32 codes. In the record the scales of both blocks come first.
void pack_q8_0(const std::byte* blocks, record_row& to) {
    for (std::size_t part = 0; part < 2; ++part) {
        const std::byte* at = blocks + part * 34;
        to.put_half(part, at);
        for (std::size_t j = 0; j < 8; ++j)
            // Adds 128 to each code: packed codes have no sign.
            to.put_quad(64 + (part * 8 + j) * plane, word_at(at + 2, j) ^ 0x80808080u);
    }
}

/// A block has an exponent and 16 bytes of codes, which stay in their order.
void pack_mxfp4_blocks(const std::byte* blocks, record_row& to) {
    for (std::size_t part = 0; part < 2; ++part) {
        const std::byte* at = blocks + part * 17;
        to.put_exponent(part, packed_byte_at(at, 0));
        for (std::size_t j = 0; j < 4; ++j)
            to.put_quad(2 * lane_count + (part * 4 + j) * plane, word_at(at + 1, j));
    }
}

/// A block of IQ4_XS has an f16 scale, the high bits of eight scales in 2 bytes, their low bits in
/// 4, and 128 bytes of codes. In the record of 16 rows the f16 scales come first, then the eight
/// scales of each row, and from byte 192 on the codes, a plane for each quad of inputs.
void pack_iq4_xs(const std::byte* block, record_row& to) {
    constexpr std::size_t codes_at = 192;
    to.put_half(0, block);
    const unsigned high = word_at(block, 0) >> 16;
    for (std::size_t part = 0; part < 8; ++part) {
        const int low = packed_byte_at(block + 4, part / 2) >> (part % 2 * 4) & 15;
        to.put_byte(2 + part, (low | static_cast<int>(high >> 2 * part & 3u) << 4) - 32);
    }
    for (std::size_t group = 0; group < 4; ++group) {
        group_codes codes;
        for (std::size_t j = 0; j < 8; ++j) {
            // A word has a quad in its low nibbles, and the fourth one after that in its high ones.
            const std::size_t at = j / 4 * 8 + j % 4;
            codes[at] = word_at(block + 8 + group * 32, j) & low_nibbles;
            codes[at + 4] = word_at(block + 8 + group * 32, j) >> 4 & low_nibbles;
        }
        put_nibbles(codes, codes_at + group * 8 * plane, to);
    }
}

/// Writes the scales and minima of 6 bits of Q4_K and Q5_K.
void put_six_bit_scales(const std::byte* packed, record_row& to) {
    constexpr std::size_t minimums = 2 * sizeof(half) + 8;
    for (std::size_t part = 0; part < 4; ++part) {
        const int s = packed_byte_at(packed, part), m = packed_byte_at(packed, part + 4);
        const int low = packed_byte_at(packed, part + 8);
        to.put_byte(4 + part, s & 63);
        to.put_paired_byte(minimums + part, m & 63);
        to.put_byte(8 + part, (low & 15) | s >> 6 << 4);
        to.put_paired_byte(minimums + 4 + part, low >> 4 | m >> 6 << 4);
    }
}

/// Packs Q4_K, and with a fifth bit Q5_K: part 2n of 32 inputs is in the low halves of 32 bytes,
/// part 2n + 1 in their high halves.
template <bool fifth>
void pack_q4_k(const std::byte* block, record_row& to) {
    to.put_half(0, block);
    to.put_half(1, block + 2);
    put_six_bit_scales(block + 4, to);
    const std::byte* fifths = block + 16;
    const std::byte* nibbles = fifths + (fifth ? 32 : 0);
    for (std::size_t group = 0; group < 4; ++group) {
        group_codes codes;
        for (std::size_t j = 0; j < 8; ++j) {
            const std::uint32_t both = word_at(nibbles + group * 32, j);
            codes[j] = both & low_nibbles;
            codes[8 + j] = both >> 4 & low_nibbles;
            if (fifth) {
                codes[j] |= (word_at(fifths, j) >> 2 * group & low_bits) << 4;
                codes[8 + j] |= (word_at(fifths, j) >> (2 * group + 1) & low_bits) << 4;
            }
        }
        // The header has two halves and 16 bytes for each of the 16 rows: 320 bytes.
        const std::size_t at = 320 + group * (fifth ? 10 : 8) * plane;
        fifth ? put_fives(codes, at, to) : put_nibbles(codes, at, to);
    }
}

/// Adds two bits of each code of the 16 inputs of part `part` to `quads`, shifted by `to`. As in
/// Q2_K, Q3_K and (the high bits) Q6_K: a byte has those of inputs i, i + 32, i + 64 and i + 96.
void take_twos(const std::byte* bytes, std::size_t part, int to, std::uint32_t* quads) {
    const std::byte* at = bytes + part / 8 * 32 + part % 2 * 16;
    for (std::size_t j = 0; j < 4; ++j)
        quads[j] |= (word_at(at, j) >> part % 8 / 2 * 2 & 3 * low_bits) << to;
}

void pack_q2_k(const std::byte* block, record_row& to) {
    to.put_half(0, block + 80);
    to.put_half(1, block + 82);
    for (std::size_t part = 0; part < 16; ++part)
        to.put_paired_byte(4 + part, packed_byte_at(block, part));
    for (std::size_t group = 0; group < 4; ++group) {
        group_codes codes{};
        for (std::size_t i = 0; i < 4; ++i) take_twos(block + 16, 4 * group + i, 0, &codes[4 * i]);
        // The header is as long as that of Q4_K.
        put_twos(codes, 320 + group * 4 * plane, to);
    }
}

/// Packs a block of Q3_K (256 weights) of one row: the f16 scale, 16 integer scales of 6 bits,
/// which the block has in pieces, and codes of 3 bits.
void pack_q3_k(const std::byte* block, record_row& to) {
    const std::byte* scales = block + 96;
    to.put_half(0, block + 108);
    for (std::size_t part = 0; part < 16; ++part) {
        const int low = packed_byte_at(scales, part % 8) >> (part / 8 * 4) & 15;
        const int high = packed_byte_at(scales, 8 + part % 4) >> (part / 4 * 2) & 3;
        to.put_paired_byte(2 + part, (low | high << 4) - 32);
    }
    for (std::size_t group = 0; group < 4; ++group) {
        group_codes codes{};
        for (std::size_t i = 0; i < 4; ++i) take_twos(block + 32, 4 * group + i, 0, &codes[4 * i]);
        for (std::size_t j = 0; j < 16; ++j)
            codes[j] |= (word_at(block, j % 8) >> (2 * group + j / 8) & low_bits) << 2;
        // The header has a half and 16 bytes for each of the 16 rows: 288 bytes.
        put_threes(codes, 288 + group * 6 * plane, to);
    }
}

/// Packs Q6_K: of each half of 128 inputs, a byte has the low four bits of inputs i and i + 64.
void pack_q6_k(const std::byte* block, record_row& to) {
    to.put_half(0, block + 208);
    for (std::size_t part = 0; part < 16; ++part)
        to.put_byte(2 + part, packed_byte_at(block + 192, part));
    for (std::size_t group = 0; group < 4; ++group) {
        group_codes codes;
        const std::byte* low = block + group / 2 * 64;
        for (std::size_t j = 0; j < 16; ++j)
            codes[j] = word_at(low, j) >> group % 2 * 4 & low_nibbles;
        for (std::size_t i = 0; i < 4; ++i) take_twos(block + 128, 4 * group + i, 4, &codes[4 * i]);
        // The header is as Q3_K's, and 32 bytes that are not used.
        put_sixes(codes, 320 + group * 12 * plane, to);
    }
}

struct packer {
    gguf_type type;
    weight_kind kind;
    std::size_t blocks;  // in a record
    /// One row's `blocks` into a record.
    void (*pack)(const std::byte* blocks, record_row& to);
};
constexpr std::array packers = {
    packer{gguf_type::q4_0, weight_kind::q4_0, 2, pack_small<18, 1, false>},
    packer{gguf_type::q4_1, weight_kind::q4_1, 2, pack_small<20, 2, false>},
    packer{gguf_type::q5_0, weight_kind::q5_0, 2, pack_small<22, 1, true>},
    packer{gguf_type::q5_1, weight_kind::q5_1, 2, pack_small<24, 2, true>},
    packer{gguf_type::q8_0, weight_kind::q8_0, 2, pack_q8_0},
    packer{gguf_type::iq4_nl, weight_kind::iq4_nl, 2, pack_small<18, 1, false>},
    packer{gguf_type::iq4_xs, weight_kind::iq4_xs, 1, pack_iq4_xs},
    packer{gguf_type::q2_k, weight_kind::q2_k, 1, pack_q2_k},
    packer{gguf_type::q3_k, weight_kind::q3_k, 1, pack_q3_k},
    packer{gguf_type::q4_k, weight_kind::q4_k, 1, pack_q4_k<false>},
    packer{gguf_type::q5_k, weight_kind::q5_k, 1, pack_q4_k<true>},
    packer{gguf_type::q6_k, weight_kind::q6_k, 1, pack_q6_k},
    packer{gguf_type::mxfp4, weight_kind::mxfp4, 2, pack_mxfp4_blocks},
};

const packer* find_packer(gguf_type type) {
    const auto* found = std::find_if(packers.begin(), packers.end(),
                                     [type](const packer& each) { return each.type == type; });
    return found == packers.end() ? nullptr : found;
}

std::string complaint(const packed_matrix& to, std::int32_t row, std::size_t record) {
    const std::size_t inputs = static_cast<std::size_t>(to.record_inputs());
    return "a scale that is not a number (row " + std::to_string(row) + ", inputs " +
           std::to_string(record * inputs) + " to " + std::to_string((record + 1) * inputs - 1) +
           ")";
}

}  // namespace

std::optional<weight_kind> packed_kind(gguf_type type, int cols) noexcept {
    const packer* how = find_packer(type);
    if (how == nullptr) return std::nullopt;
    const packed_matrix shape{how->kind, scale_kind::f16, lane_count, cols, nullptr};
    if (cols % shape.record_inputs() != 0) return std::nullopt;
    return how->kind;
}

std::optional<std::string> pack_blocks(const packed_matrix& to, const block_source& source,
                                       int tile_begin, int tile_end, std::byte* out) {
    const packer* how = find_packer(source.type);
    ASSERT(how != nullptr && how->kind == to.kind);
    const std::size_t block_bytes = storage::find_block_size(source.type)->bytes;
    const std::size_t record_bytes = to.record_bytes();
    const auto records = static_cast<std::size_t>(to.cols / to.record_inputs());
    for (int tile = tile_begin; tile < tile_end; ++tile) {
        const int first = tile * lane_count, lanes = std::min(lane_count, to.rows - first);
        std::array<std::int32_t, lane_count> numbers;
        std::array<const std::byte*, lane_count> rows;
        for (std::size_t lane = 0; lane < static_cast<std::size_t>(lanes); ++lane) {
            const std::size_t row = static_cast<std::size_t>(first) + lane;
            numbers[lane] =
                source.row_of.empty() ? static_cast<std::int32_t>(row) : source.row_of[row];
            rows[lane] = source.blocks + static_cast<std::size_t>(numbers[lane]) * source.row_bytes;
        }
        std::byte* record = out + static_cast<std::size_t>(tile) * to.tile_bytes();
        for (std::size_t i = 0; i < records; ++i, record += record_bytes) {
            std::memset(record, 0, record_bytes);  // of lanes without a row, and unused bytes
            for (std::size_t lane = 0; lane < static_cast<std::size_t>(lanes); ++lane) {
                record_row cells(record, lane);
                how->pack(rows[lane] + i * how->blocks * block_bytes, cells);
                if (!cells.finite()) return complaint(to, numbers[lane], i);
            }
        }
    }
    return std::nullopt;
}

}  // namespace semantic::engine
