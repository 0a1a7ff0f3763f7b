// SPDX-License-Identifier: Apache-2.0
// The definition of GGUF's packed forms, written to be read and not to be fast: block_forms.hpp has
// the layout. Numbers in parentheses are formulas of ARITHMETIC.md, (20), (21), (30) and (31) of
// its section on GGUF's types.

#include "engine/kernels/block_forms.hpp"

#include <cmath>

namespace semantic::engine {
namespace {

using index = std::ptrdiff_t;

constexpr index plane = 4 * lane_count;  // bytes of a line of codes: 4 inputs of each of 16 rows

/// Reads one group of 64 inputs of one row. The group has parts of 16 or 32 inputs, each with a
/// scale and, in some types, an offset; a weight is scale * integer + offset.
class row_group {
  public:
    row_group(const packed_matrix& w, index row, index group)
        : form_(block_form_of(w.kind)),
          looked_up_(is_looked_up(w.kind)),
          row_(row % lane_count),
          part_(group % form_.groups * (group_size / form_.part)) {
        header_ = reinterpret_cast<const std::uint8_t*>(w.data) +
                  static_cast<std::size_t>(row / lane_count) * w.tile_bytes() +
                  static_cast<std::size_t>(group / form_.groups) * w.record_bytes();
        codes_ = header_ + form_.header_bytes + group % form_.groups * form_.code_bytes;
    }

    const block_form& form() const { return form_; }

    /// The integer of input k.
    int integer(index k) const {
        return (looked_up_ ? iq4_raised_levels[code(k)] : code(k)) - form_.zero;
    }
    /// What the integer scales are multiplied by, in types that have such.
    float unit() const { return half_at(0); }
    /// What the integer minimums are multiplied by.
    float offset_unit() const { return -half_at(1); }
    /// Part `part`'s integer scale and minimum.
    int integer_scale(index part) const {
        if (form_.planes == code_planes::twos) {
            return paired_byte(0, part) & 15;
        }
        return form_.planes == code_planes::threes ? paired_byte(0, part) : part_byte(0, part);
    }
    int minimum(index part) const {
        return form_.planes == code_planes::twos ? (paired_byte(0, part) & 255) >> 4
                                                 : paired_byte(1, part);
    }
    float scale(index part) const {
        return form_.has_integer_scales() ? unit() * static_cast<float>(integer_scale(part))
                                          : half_at(part);
    }
    float offset(index part) const {
        return form_.has_integer_scales() ? offset_unit() * static_cast<float>(minimum(part))
                                          : half_at(2 + part);
    }

  private:
    float half_at(index i) const {
        return to_float(reinterpret_cast<const half*>(header_)[i * lane_count + row_]);
    }
    /// The header's first (0) or second (1) array of bytes after its f16 numbers, from this group's
    /// first part on.
    const std::uint8_t* bytes(index array) const {
        const index parts = form_.groups * form_.parts();
        const index halves = form_.has_offsets ? 2 : 1;
        return header_ + (2 * halves + array * parts + part_) * lane_count;
    }
    /// A part's byte of such an array, for this row.
    int part_byte(index array, index part) const {
        return static_cast<std::int8_t>(bytes(array)[part * lane_count + row_]);
    }
    /// A part's byte of an array in which the bytes of two parts of a row are next to each other.
    int paired_byte(index array, index part) const {
        const index pair = part / 2 * 2 * lane_count;
        return static_cast<std::int8_t>(bytes(array)[pair + row_ * 2 + part % 2]);
    }

    /// The byte for input k in a line of the group's codes. A line has 4 inputs of each row.
    int byte(index line, index k) const { return codes_[line * plane + row_ * 4 + k % 4]; }

    /// The code of input k, put together of the bits that the form keeps in different lines.
    int code(index k) const {
        const index quad = k / 4, part = k / form_.part, j = quad % 8;
        const bool high = k >= group_size / 2;
        switch (form_.planes) {
            case code_planes::bytes:
                return byte(quad, k);
            case code_planes::nibbles:
                return high ? byte(j, k) >> 4 : byte(j, k) & 15;
            case code_planes::nibbles_fifths: {
                const int one = byte(8 + j / 4, k) >> fifth_bit(high, static_cast<int>(j)) & 1;
                return high ? byte(j, k) >> 4 << 1 | one : (byte(j, k) & 15) | one << 4;
            }
            case code_planes::twos:
                return byte(quad % 4, k) >> 2 * part & 3;
            case code_planes::threes: {
                const index line = part / 2 * 3, side = part % 2;
                if (quad % 4 < 3) {
                    return byte(line + quad % 4, k) >> 3 * side & 7;
                }
                return byte(line + side, k) >> 6 | (byte(line + 2, k) >> (6 + side) & 1) << 2;
            }
            case code_planes::sixes: {
                const index line = part / 2 * 4 + quad % 4;
                constexpr int bit[2][2] = {{4, 6}, {2, 0}};
                const int two = byte(8 + line / 2, k) >> bit[part % 2][line % 2] & 3;
                return part % 2 == 0 ? (byte(line, k) & 15) | two << 4
                                     : byte(line, k) >> 4 << 2 | two;
            }
        }
        // Not reached: the switch has all planes.
        return 0;
    }

    block_form form_;
    bool looked_up_;
    index row_;   // within its tile
    index part_;  // this group's first part, counted in the record
    const std::uint8_t* header_;
    const std::uint8_t* codes_;  // of this group
};

}  // namespace

void embed_block_row(const packed_matrix& w, int row, float* out) {
    for (index g = 0; g < w.cols / group_size; ++g) {
        const row_group group(w, row, g);
        const block_form& form = group.form();
        for (index part = 0; part < form.parts(); ++part, out += form.part) {
            const float scale = group.scale(part);
            const float offset = form.has_offsets ? group.offset(part) : 0.0f;
            for (index k = 0; k < form.part; ++k) {
                const auto integer = static_cast<float>(group.integer(part * form.part + k));
                out[k] = std::fma(scale, integer, offset);
            }
        }
    }
}

namespace {

/// The sum of integer * q over one part. q: the 64 activations of the group.
std::int32_t part_product(const row_group& group, index part, const std::int8_t* q) {
    std::int32_t sum = 0;
    for (index k = part * group.form().part; k < (part + 1) * group.form().part; ++k) {
        sum += group.integer(k) * q[k];
    }
    return sum;
}

/// The sum of q over one part.
std::int32_t part_sum(const row_group& group, index part, const std::int8_t* q) {
    std::int32_t sum = 0;
    for (index k = part * group.form().part; k < (part + 1) * group.form().part; ++k) {
        sum += q[k];
    }
    return sum;
}

/// The product of a group without offsets, not yet times the activations' scale: t of formula (20)
/// or (21) of ARITHMETIC.md.
float scaled_products(const row_group& group, const std::int8_t* q) {
    const block_form& form = group.form();
    float t = 0.0f;
    std::int32_t total = 0;
    for (index part = 0; part < form.parts(); ++part) {
        const std::int32_t product = part_product(group, part, q);
        if (form.has_integer_totals()) {
            total += group.integer_scale(part) * product;
            continue;
        }
        const auto sum = static_cast<float>(product);
        t = part == 0 ? group.scale(part) * sum : std::fma(group.scale(part), sum, t);
    }
    return form.has_integer_totals() ? group.unit() * static_cast<float>(total) : t;
}

/// Adds the offsets' share to t, by formula (30) of ARITHMETIC.md. `t`: as scaled_products()
/// returns it for the same `q`. Requires: the group's form has offsets.
float add_offsets(const row_group& group, const std::int8_t* q, float t) {
    const block_form& form = group.form();
    std::int32_t total = 0;
    for (index part = 0; part < form.parts(); ++part) {
        const std::int32_t sum = part_sum(group, part, q);
        if (form.has_integer_scales()) {
            total += group.minimum(part) * sum;
        } else {
            t = std::fma(group.offset(part), static_cast<float>(sum), t);
        }
    }
    return form.has_integer_scales() ? std::fma(group.offset_unit(), static_cast<float>(total), t)
                                     : t;
}

}  // namespace

float block_product(const packed_matrix& w, int row, const std::int8_t* q, const float* scales) {
    float acc = 0.0f;
    for (index g = 0; g < w.cols / group_size; ++g, q += group_size) {
        const row_group group(w, row, g);
        float t = scaled_products(group, q);
        if (group.form().has_offsets) {
            t = add_offsets(group, q, t);
        }
        acc = std::fma(t, scales[g], acc);
    }
    return acc;
}

}  // namespace semantic::engine
