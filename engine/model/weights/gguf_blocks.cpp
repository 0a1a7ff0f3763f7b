// SPDX-License-Identifier: Apache-2.0
#include "engine/model/weights/gguf_blocks.hpp"

#include <algorithm>
#include <cstring>

#include "engine/kernels/kernels.hpp"
#include "engine/kernels/mxfp4_codes.hpp"
#include "storage/types/assert.hpp"

namespace semantic::engine {

namespace {

using storage::gguf_type;

int byte_at(const std::byte* at, std::size_t i) { return std::to_integer<int>(at[i]); }

std::uint32_t word_at(const std::byte* at) {
    std::uint32_t word;
    std::memcpy(&word, at, sizeof word);
    return word;
}

std::uint16_t half_bits(const std::byte* at) {
    std::uint16_t bits;
    std::memcpy(&bits, at, sizeof bits);
    return bits;
}

float half_at(const std::byte* at) { return to_float(half_bits(at)); }

/// Decodes 32 codes of 4 bits: element i is the low half of byte i, element i + 16 its high half.
/// `to_code(code, i)`: the type's code of element i.
template <class ToCode>
void decode_nibbles(const std::byte* nibbles, decoded_block& out, const ToCode& to_code) {
    for (std::size_t i = 0; i < 16; ++i) {
        out.codes[i] = static_cast<std::int8_t>(to_code(byte_at(nibbles, i) & 15, i));
        out.codes[i + 16] = static_cast<std::int8_t>(to_code(byte_at(nibbles, i) >> 4, i + 16));
    }
}

void set_group(decoded_block& out, std::size_t group, float scale, float offset = 0.0f) {
    out.scales[group] = scale;
    out.offsets[group] = offset;
}

void decode_q4_0(const std::byte* b, decoded_block& out) {
    set_group(out, 0, half_at(b));
    decode_nibbles(b + 2, out, [](int code, std::size_t) { return code - 8; });
}

void decode_q4_1(const std::byte* b, decoded_block& out) {
    set_group(out, 0, half_at(b), half_at(b + 2));
    decode_nibbles(b + 4, out, [](int code, std::size_t) { return code; });
}

/// The code with its fifth bit, which for element i is bit i of `high`.
int with_fifth_bit(int code, std::uint32_t high, std::size_t i) {
    return code | static_cast<int>(high >> i & 1u) << 4;
}

void decode_q5_0(const std::byte* b, decoded_block& out) {
    set_group(out, 0, half_at(b));
    const std::uint32_t high = word_at(b + 2);
    decode_nibbles(b + 6, out,
                   [high](int code, std::size_t i) { return with_fifth_bit(code, high, i) - 16; });
}

void decode_q5_1(const std::byte* b, decoded_block& out) {
    set_group(out, 0, half_at(b), half_at(b + 2));
    const std::uint32_t high = word_at(b + 4);
    decode_nibbles(b + 8, out,
                   [high](int code, std::size_t i) { return with_fifth_bit(code, high, i); });
}

void decode_q8_0(const std::byte* b, decoded_block& out) {
    set_group(out, 0, half_at(b));
    std::memcpy(out.codes.data(), b + 2, 32);
}

/// Q2_K: scales and minima of 4 bits; codes of 2 bits, a byte has those of elements that are 32
/// apart.
void decode_q2_k(const std::byte* b, decoded_block& out) {
    const std::byte* codes = b + 16;
    const float scale = half_at(b + 80), minimum = half_at(b + 82);
    for (std::size_t group = 0; group < 16; ++group) {
        const int both = byte_at(b, group);
        set_group(out, group, scale * static_cast<float>(both & 15),
                  -(minimum * static_cast<float>(both >> 4)));
    }
    for (std::size_t i = 0; i < 256; ++i) {
        const std::size_t half = i / 128, shift = i % 128 / 32 * 2;
        out.codes[i] = static_cast<std::int8_t>(byte_at(codes, half * 32 + i % 32) >> shift & 3);
    }
}

/// Q3_K: two bits of a code as in Q2_K, and a third bit; 4 is subtracted if that is not set. Scales
/// of 6 bits: the low four in the first eight bytes, the high two in the last four.
void decode_q3_k(const std::byte* b, decoded_block& out) {
    const std::byte *third = b, *codes = b + 32, *scales = b + 96;
    const float scale = half_at(b + 108);
    for (std::size_t group = 0; group < 16; ++group) {
        const int low = byte_at(scales, group % 8) >> (group / 8 * 4) & 15;
        const int high = byte_at(scales, 8 + group % 4) >> (group / 4 * 2) & 3;
        set_group(out, group, scale * static_cast<float>((low | high << 4) - 32));
    }
    for (std::size_t i = 0; i < 256; ++i) {
        const std::size_t half = i / 128, shift = i % 128 / 32 * 2;
        const int low = byte_at(codes, half * 32 + i % 32) >> shift & 3;
        const int has_third = byte_at(third, i % 32) >> (i / 32) & 1;
        out.codes[i] = static_cast<std::int8_t>(low - (has_third != 0 ? 0 : 4));
    }
}

/// Q4_K and Q5_K: decodes the scales of eight groups of 32; scale and minimum have 6 bits each, in
/// 12 bytes.
void decode_six_bit_scales(const std::byte* b, decoded_block& out) {
    const float scale = half_at(b), minimum = half_at(b + 2);
    const std::byte* packed = b + 4;
    for (std::size_t group = 0; group < 8; ++group) {
        int s, m;
        if (group < 4) {
            s = byte_at(packed, group) & 63;
            m = byte_at(packed, group + 4) & 63;
        } else {
            const int low = byte_at(packed, group + 4);
            s = (low & 15) | byte_at(packed, group - 4) >> 6 << 4;
            m = low >> 4 | byte_at(packed, group) >> 6 << 4;
        }
        set_group(out, group, scale * static_cast<float>(s), -(minimum * static_cast<float>(m)));
    }
}

/// Code i of Q4_K and Q5_K, 4 bits: group 2n is in the low halves of 32 bytes, group 2n + 1 in
/// their high halves.
int paired_nibble(const std::byte* codes, std::size_t i) {
    return byte_at(codes, i / 64 * 32 + i % 32) >> (i / 32 % 2 * 4) & 15;
}

void decode_q4_k(const std::byte* b, decoded_block& out) {
    decode_six_bit_scales(b, out);
    for (std::size_t i = 0; i < 256; ++i)
        out.codes[i] = static_cast<std::int8_t>(paired_nibble(b + 16, i));
}

void decode_q5_k(const std::byte* b, decoded_block& out) {
    decode_six_bit_scales(b, out);
    for (std::size_t i = 0; i < 256; ++i) {
        const int fifth = byte_at(b + 16, i % 32) >> (i / 32) & 1;
        out.codes[i] = static_cast<std::int8_t>(paired_nibble(b + 48, i) | fifth << 4);
    }
}

/// Q6_K: of each half of 128 elements, a byte has the low four bits of elements i and i + 64, and
/// another the high two of i, i + 32, i + 64 and i + 96.
void decode_q6_k(const std::byte* b, decoded_block& out) {
    const std::byte *low = b, *high = b + 128, *scales = b + 192;
    const float scale = half_at(b + 208);
    for (std::size_t group = 0; group < 16; ++group) {
        const auto own = static_cast<std::int8_t>(byte_at(scales, group));
        set_group(out, group, scale * static_cast<float>(own));
    }
    for (std::size_t i = 0; i < 256; ++i) {
        const std::size_t half = i / 128, in_half = i % 128;
        const int four = byte_at(low, half * 64 + in_half % 64) >> (in_half / 64 * 4) & 15;
        const int two = byte_at(high, half * 32 + in_half % 32) >> (in_half / 32 * 2) & 3;
        out.codes[i] = static_cast<std::int8_t>((four | two << 4) - 32);
    }
}

/// The values of the 16 codes of IQ4_NL and IQ4_XS: denser about zero, as weights are.
constexpr std::array<std::int8_t, 16> iq4_levels = {-127, -104, -83, -65, -49, -35, -22, -10,
                                                    1,    13,   25,  38,  53,  69,  89,  113};

void decode_iq4_nl(const std::byte* b, decoded_block& out) {
    set_group(out, 0, half_at(b));
    decode_nibbles(b + 2, out, [](int code, std::size_t) {
        return iq4_levels[static_cast<std::size_t>(code)];
    });
}

/// IQ4_XS: eight groups as in IQ4_NL; their scales have the low four bits in nibbles and the high
/// two in a word.
void decode_iq4_xs(const std::byte* b, decoded_block& out) {
    const float scale = half_at(b);
    const unsigned high = half_bits(b + 2);
    for (std::size_t group = 0; group < 8; ++group) {
        const int low = byte_at(b + 4, group / 2) >> (group % 2 * 4) & 15;
        const int own = (low | static_cast<int>(high >> (2 * group) & 3u) << 4) - 32;
        set_group(out, group, scale * static_cast<float>(own));
    }
    for (std::size_t i = 0; i < 256; ++i) {
        const int code = byte_at(b + 8, i / 32 * 16 + i % 16) >> (i / 16 % 2 * 4) & 15;
        out.codes[i] = iq4_levels[static_cast<std::size_t>(code)];
    }
}

void decode_mxfp4(const std::byte* b, decoded_block& out) {
    set_group(out, 0, mxfp4_unit(static_cast<std::uint8_t>(byte_at(b, 0))));
    decode_nibbles(b + 1, out, [](int code, std::size_t) {
        return mxfp4_levels[static_cast<std::size_t>(code)] - mxfp4_offset;
    });
}

struct decoder_row {
    gguf_type type;
    block_decoder decoder;
};
constexpr std::array decoders = {
    decoder_row{gguf_type::q4_0, {32, decode_q4_0}},
    decoder_row{gguf_type::q4_1, {32, decode_q4_1}},
    decoder_row{gguf_type::q5_0, {32, decode_q5_0}},
    decoder_row{gguf_type::q5_1, {32, decode_q5_1}},
    decoder_row{gguf_type::q8_0, {32, decode_q8_0}},
    decoder_row{gguf_type::q2_k, {16, decode_q2_k}},
    decoder_row{gguf_type::q3_k, {16, decode_q3_k}},
    decoder_row{gguf_type::q4_k, {32, decode_q4_k}},
    decoder_row{gguf_type::q5_k, {32, decode_q5_k}},
    decoder_row{gguf_type::q6_k, {16, decode_q6_k}},
    decoder_row{gguf_type::iq4_nl, {32, decode_iq4_nl}},
    decoder_row{gguf_type::iq4_xs, {32, decode_iq4_xs}},
    decoder_row{gguf_type::mxfp4, {32, decode_mxfp4}},
};

bool is_float(gguf_type type) {
    return type == gguf_type::f32 || type == gguf_type::f16 || type == gguf_type::bf16;
}

void widen(gguf_type type, std::span<const std::byte> from, std::span<float> out) {
    if (type == gguf_type::f32) {
        std::memcpy(out.data(), from.data(), out.size_bytes());
        return;
    }
    for (std::size_t i = 0; i < out.size(); ++i) {
        const std::uint16_t bits = half_bits(from.data() + 2 * i);
        out[i] = type == gguf_type::f16 ? to_float(bits) : bfloat_to_float(bits);
    }
}

}  // namespace

const block_decoder* find_block_decoder(gguf_type type) noexcept {
    for (const decoder_row& row : decoders)
        if (row.type == type) return &row.decoder;
    return nullptr;
}

bool can_dequantize(gguf_type type) noexcept {
    return is_float(type) || find_block_decoder(type) != nullptr;
}

std::string readable_gguf_types() {
    std::string names;
    for (const gguf_type each : {gguf_type::f32, gguf_type::f16, gguf_type::bf16})
        names.append(names.empty() ? "" : ", ").append(storage::find_block_size(each)->name);
    for (const decoder_row& row : decoders)
        names.append(", ").append(storage::find_block_size(row.type)->name);
    return names;
}

void dequantize(gguf_type type, std::span<const std::byte> blocks, std::span<float> out) {
    ASSERT(can_dequantize(type));
    if (is_float(type)) return widen(type, blocks, out);
    const block_decoder& decoder = *find_block_decoder(type);
    const storage::gguf_block_size& size = *storage::find_block_size(type);
    ASSERT(out.size() % size.elements == 0 &&
           blocks.size() == out.size() / size.elements * size.bytes);
    decoded_block decoded;
    for (std::size_t block = 0; block * size.elements < out.size(); ++block) {
        decoder.decode(blocks.data() + block * size.bytes, decoded);
        float* to = out.data() + block * size.elements;
        for (std::size_t i = 0; i < size.elements; ++i) {
            const std::size_t group = i / static_cast<std::size_t>(decoder.group);
            // In this order of operations, as the reference has it.
            to[i] = decoded.scales[group] * static_cast<float>(decoded.codes[i]) +
                    decoded.offsets[group];
        }
    }
}

}  // namespace semantic::engine
