// SPDX-License-Identifier: Apache-2.0
#pragma once
// Random inputs and plain double-precision answers for the kernel tests.

#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <random>
#include <string>
#include <vector>

#include "engine/kernels/gemm.hpp"
#include "engine/kernels/kernels.hpp"

namespace semantic::engine::kernel_tests {

/// A buffer that starts `offset` bytes past a 64-byte boundary and ends where the allocation ends,
/// so that a sanitizer sees a read past it.
template <class T>
class buffer {
  public:
    explicit buffer(std::size_t count, std::size_t offset = 0)
        : bytes_(count * sizeof(T) + offset),
          raw_(static_cast<std::byte*>(::operator new(bytes_ == 0 ? 1 : bytes_, align_))),
          data_(reinterpret_cast<T*>(raw_ + offset)),
          count_(count) {
        std::memset(raw_, 0, bytes_);
    }
    ~buffer() { ::operator delete(raw_, align_); }
    buffer(const buffer&) = delete;
    buffer& operator=(const buffer&) = delete;

    T* data() { return data_; }
    const T* data() const { return data_; }
    std::size_t size() const { return count_; }
    T& operator[](std::size_t i) { return data_[i]; }
    const T& operator[](std::size_t i) const { return data_[i]; }
    T* begin() { return data_; }
    T* end() { return data_ + count_; }

  private:
    static constexpr std::align_val_t align_{64};
    std::size_t bytes_;
    std::byte* raw_;
    T* data_;
    std::size_t count_;
};

class source {
  public:
    explicit source(unsigned seed) : random_(seed) {}
    float normal() { return normal_(random_); }
    int below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
    /// Mostly ordinary values; now and then a zero, a huge or a tiny one.
    float any() {
        switch (below(40)) {
            case 0:
                return 0.0f;
            case 1:
                return -0.0f;
            case 2:
                return normal() * 1e4f;
            case 3:
                return normal() * 1e-6f;
            case 4:
                return normal() * 1e-38f;
            default:
                return normal();
        }
    }
    template <class Range>
    void fill(Range& range) {
        for (auto& value : range) {
            value = any();
        }
    }
    std::mt19937& engine() { return random_; }

  private:
    std::mt19937 random_;
    std::normal_distribution<float> normal_;
};

inline bfloat to_bfloat(float value) {  // truncated: any bfloat will do
    return static_cast<bfloat>(std::bit_cast<std::uint32_t>(value) >> 16);
}

/// A matrix in packed form, and its exact values as doubles, row-major.
struct test_matrix {
    packed_matrix packed;
    std::unique_ptr<buffer<std::byte>> data;
    std::vector<double> values;  // [rows, cols]
};

inline void put_scale(scale_kind kind, float value, std::byte* at, double& exact) {
    if (kind == scale_kind::f32) {
        std::memcpy(at, &value, 4);
        exact = static_cast<double>(value);
        return;
    }
    const std::uint16_t bits = kind == scale_kind::f16 ? to_half(value) : to_bfloat(value);
    std::memcpy(at, &bits, 2);
    exact = static_cast<double>(kind == scale_kind::f16 ? to_float(bits) : bfloat_to_float(bits));
}

inline test_matrix make_quant_matrix(weight_kind kind, scale_kind scales, int rows, int cols,
                                     source& random) {
    test_matrix m;
    m.packed = {kind, scales, rows, cols, nullptr};
    const auto r = static_cast<std::size_t>(rows), c = static_cast<std::size_t>(cols);
    const std::size_t groups = c / 64, bits = kind == weight_kind::q4 ? 4 : 8;
    const std::size_t width = scales == scale_kind::f32 ? 4 : 2;
    std::vector<std::byte> words(r * c * bits / 8), s(r * groups * width), b(r * groups * width);
    m.values.resize(r * c);
    for (auto& word : words) {
        word = static_cast<std::byte>(random.below(256));
    }
    for (std::size_t g = 0; g < r * groups; ++g) {
        double scale = 0, bias = 0;
        put_scale(scales, random.normal() * 0.01f, &s[g * width], scale);
        put_scale(scales, random.normal() * 0.1f, &b[g * width], bias);
        for (std::size_t i = g * 64; i < g * 64 + 64; ++i) {
            const auto byte = std::to_integer<unsigned>(words[i * bits / 8]);
            const unsigned q = bits == 8 ? byte : byte >> (i % 2 * 4) & 15u;
            m.values[i] = scale * q + bias;
        }
    }
    m.data = std::make_unique<buffer<std::byte>>(m.packed.bytes());
    pack_mlx(m.packed, {words.data(), s.data(), b.data()}, 0, m.packed.tiles(), m.data->data());
    m.packed.data = m.data->data();
    return m;
}

/// Exponents lie in [low, high). Every second row of the source belongs to the matrix when row_step
/// is 2, and so on.
inline test_matrix make_mxfp4_matrix(int rows, int cols, source& random, int low = 117,
                                     int high = 125, int row_step = 1) {
    constexpr double values[8] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
    test_matrix m;
    m.packed = {weight_kind::mxfp4, scale_kind::f16, rows, cols, nullptr};
    const auto r = static_cast<std::size_t>(rows), c = static_cast<std::size_t>(cols);
    const auto step = static_cast<std::size_t>(row_step);
    std::vector<std::byte> blocks(r * step * c / 2), scales(r * step * c / 32);
    for (auto& byte : blocks) {
        byte = static_cast<std::byte>(random.below(256));
    }
    for (auto& byte : scales) {
        byte = static_cast<std::byte>(low + random.below(high - low));
    }
    m.values.resize(r * c);
    for (std::size_t i = 0; i < r * c; ++i) {
        const std::size_t at = i / c * step * c + i % c;
        const unsigned code = std::to_integer<unsigned>(blocks[at / 2]) >> (at % 2 * 4) & 15u;
        const int exponent = std::to_integer<int>(scales[at / 32]) - 127;
        m.values[i] = std::ldexp(code < 8 ? values[code] : -values[code - 8], exponent);
    }
    m.data = std::make_unique<buffer<std::byte>>(m.packed.bytes());
    pack_mxfp4(m.packed, {blocks.data(), scales.data(), row_step}, 0, m.packed.tiles(),
               m.data->data());
    m.packed.data = m.data->data();
    return m;
}

inline test_matrix make_float_matrix(weight_kind kind, int rows, int cols, source& random) {
    test_matrix m;
    m.packed = {kind, scale_kind::f16, rows, cols, nullptr};
    const auto n = static_cast<std::size_t>(rows) * static_cast<std::size_t>(cols);
    const std::size_t width = kind == weight_kind::f32 ? 4 : 2;
    std::vector<std::byte> plain(n * width);
    m.values.resize(n);
    for (std::size_t i = 0; i < n; ++i) {
        const scale_kind as = kind == weight_kind::f32   ? scale_kind::f32
                              : kind == weight_kind::f16 ? scale_kind::f16
                                                         : scale_kind::bf16;
        put_scale(as, random.any(), &plain[i * width], m.values[i]);
    }
    m.data = std::make_unique<buffer<std::byte>>(m.packed.bytes());
    pack_float(m.packed, plain.data(), 0, m.packed.tiles(), m.data->data());
    m.packed.data = m.data->data();
    return m;
}

/// Quantised activations and their storage.
struct test_rows {
    test_rows(const kernel_table& table, const float* x, int count, int cols)
        : q(static_cast<std::size_t>(count) * static_cast<std::size_t>(cols)),
          scales(q.size() / 64),
          sums(q.size() / 64),
          part_sums(q.size() / 16) {
        table.quantize_rows(x, count, cols, q.data(), scales.data(), sums.data());
        table.sum_parts(q.data(), part_sums.size(), part_sums.data());
    }
    quantized_rows view() const { return {q.data(), scales.data(), sums.data(), part_sums.data()}; }
    buffer<std::int8_t> q;
    buffer<float> scales, sums;
    buffer<std::int16_t> part_sums;
};

/// Element e of a group of K or V, from the words of kv_rows: a second reading of the packed form.
inline unsigned packed_level(const std::byte* group, std::size_t bits, std::size_t e) {
    const auto at = [group](std::size_t i) { return std::to_integer<unsigned>(group[i]); };
    if (bits == 8) return at(e);
    const unsigned low = at(e / 2) >> (e % 2 * 4) & 15u;
    const std::size_t j = e / 8, b = e % 8 / 2, h = e % 2;
    if (bits == 5) return low | (at(32 + j / 4 * 4 + b) >> (j % 4 * 2 + h) & 1u) << 4;
    if (bits == 4) return low;
    const unsigned six = low | (at(32 + j / 2 * 4 + b) >> (j % 2 * 4 + 2 * h) & 3u) << 4;
    if (bits == 6) return six;
    return six | (at(48 + j / 4 * 4 + b) >> (j % 4 * 2 + h) & 1u) << 6;
}

template <class T>
bool same_bits(const T* a, const T* b, std::size_t count) {
    return count == 0 || std::memcmp(a, b, count * sizeof(T)) == 0;
}

/// gamma_n of the standard error analysis: n roundings of 2^-24 each.
inline double gamma(double n) { return n * 0x1p-24 / (1 - n * 0x1p-24); }

}  // namespace semantic::engine::kernel_tests
