// The definition of GGUF's packed forms, written to be read: block_forms.hpp has the layout,
// ARITHMETIC.md the formulas, (20) and (21).

#include "engine/kernels/block_forms.hpp"

#include <cmath>

namespace semantic::engine {
namespace {

using index = std::ptrdiff_t;

constexpr index plane = 4 * lane_count;  // bytes of a quad of 16 rows

/// One group of 64 inputs of one row, and how to read it.
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
        if (form_.scale_parts == 1) {
            return code(k) * (part_byte(0, k / form_.part) & 15);
        }
        return (looked_up_ ? iq4_raised_levels[code(k)] : code(k)) - form_.zero;
    }

    /// Part `part` of form().scale_parts.
    float scale(index part) const {
        if (form_.groups == 1) {
            return half_at(part);
        }
        const float d = half_at(0);
        return form_.scale_parts == 1 ? d : d * static_cast<float>(signed_byte(0, part));
    }

    /// Part `part` of form().offset_parts.
    float offset(index part) const {
        if (form_.groups == 1) {
            return half_at(2 + part);
        }
        const int minimum = form_.scale_parts == 1 ? part_byte(0, part) >> 4 : signed_byte(1, part);
        return -(half_at(1) * static_cast<float>(minimum));
    }

  private:
    float half_at(index i) const {
        return to_float(reinterpret_cast<const half*>(header_)[i * lane_count + row_]);
    }
    /// Of this group's part, in the first or the second array of bytes.
    int part_byte(index array, index part) const {
        const index parts = form_.groups * group_size / form_.part;
        const index halves = form_.offset_parts > 0 ? 2 : 1;
        return header_[(2 * halves + array * parts + part_ + part) * lane_count + row_];
    }
    int signed_byte(index array, index part) const {
        return static_cast<std::int8_t>(part_byte(array, part));
    }

    /// Byte of input k within a quad of the plane that begins at `at`.
    int byte(index at, index k) const { return codes_[at + row_ * 4 + k % 4]; }
    /// Input k of a plane of two bits each.
    int two(index at, index k) const { return byte(at, k) >> (k % 16 / 4 * 2) & 3; }
    /// Input k of a plane of one bit each.
    int one(index at, index k) const { return byte(at, k) >> (k % 32 / 4) & 1; }
    /// Input k of nibbles, the quads of `inputs` in a run.
    int nibble(index at, index k, index inputs) const {
        const index quads = inputs / 8;  // that lie in low nibbles
        const int pair = byte(at + k % inputs / 4 % quads * plane, k);
        return k % inputs < inputs / 2 ? pair & 15 : pair >> 4;
    }

    int code(index k) const {
        const index half = k / 32, part = k / 16;
        switch (form_.planes) {
            case code_planes::nibbles:
                return nibble(half * 4 * plane, k, 32);
            case code_planes::nibbles_fifths:
                return nibble(half * 5 * plane, k, 32) | one((half * 5 + 4) * plane, k) << 4;
            case code_planes::bytes:
                return byte(k / 4 * plane, k);
            case code_planes::twos:
                return two(part * plane, k);
            case code_planes::twos_thirds:
                return two(part * plane, k) | one((4 + half) * plane, k) << 2;
            case code_planes::sixes:
                return nibble(part * 3 * plane, k, 16) | two((part * 3 + 2) * plane, k) << 4;
        }
        return 0;
    }

    block_form form_;
    bool looked_up_;
    index row_;
    index part_;  // this group's first of the record
    const std::uint8_t* header_;
    const std::uint8_t* codes_;
};

}  // namespace

void embed_block_row(const packed_matrix& w, int row, float* out) {
    constexpr index step = 16;  // no part is smaller
    for (index g = 0; g < w.cols / group_size; ++g) {
        const row_group group(w, row, g);
        const block_form& form = group.form();
        for (index from = 0; from < group_size; from += step, out += step) {
            const float scale = group.scale(from * form.scale_parts / group_size);
            const float offset =
                form.offset_parts > 0 ? group.offset(from * form.offset_parts / group_size) : 0.0f;
            for (index k = 0; k < step; ++k) {
                out[k] = std::fma(scale, static_cast<float>(group.integer(from + k)), offset);
            }
        }
    }
}

float block_product(const packed_matrix& w, int row, const std::int8_t* q, const float* scales) {
    float acc = 0.0f;
    for (index g = 0; g < w.cols / group_size; ++g, q += group_size) {
        const row_group group(w, row, g);
        const block_form& form = group.form();
        float t = 0.0f;
        for (index part = 0; part < form.scale_parts; ++part) {
            std::int32_t idot = 0;
            const index inputs = group_size / form.scale_parts;
            for (index k = part * inputs; k < (part + 1) * inputs; ++k) {
                idot += group.integer(k) * q[k];
            }
            const float scale = group.scale(part), sum = static_cast<float>(idot);
            t = part == 0 ? scale * sum : std::fma(scale, sum, t);
        }
        for (index part = 0; part < form.offset_parts; ++part) {
            std::int32_t isum = 0;
            const index inputs = group_size / form.offset_parts;
            for (index k = part * inputs; k < (part + 1) * inputs; ++k) {
                isum += q[k];
            }
            t = std::fma(group.offset(part), static_cast<float>(isum), t);
        }
        acc = std::fma(t, scales[g], acc);
    }
    return acc;
}

}  // namespace semantic::engine
