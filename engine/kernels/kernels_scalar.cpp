// SPDX-License-Identifier: Apache-2.0
// The definition of every kernel: slow, obvious, never optimised. kernels.hpp states the orders;
// scalar_attention.cpp has what is done with keys and values. std::fma compiles to a library call
// where the baseline instruction set lacks it; that is exact too.

#include <cmath>

#include "engine/kernels/block_forms.hpp"
#include "engine/kernels/exp_constants.hpp"
#include "engine/kernels/mxfp4_codes.hpp"
#include "engine/kernels/scalar_attention.hpp"
#include "engine/kernels/tables.hpp"

namespace semantic::engine {
namespace {

using index = std::ptrdiff_t;
using scalar::exp_one;
using scalar::fold;

float read_half(const std::byte* at, index i) {
    return to_float(reinterpret_cast<const half*>(at)[i]);
}

/// Element `i` of an array of one of the floating kinds.
float read_float(const std::byte* at, weight_kind kind, index i) {
    if (kind == weight_kind::f32) {
        return reinterpret_cast<const float*>(at)[i];
    }
    return kind == weight_kind::f16 ? read_half(at, i)
                                    : bfloat_to_float(reinterpret_cast<const bfloat*>(at)[i]);
}

float read_scale(const std::byte* at, scale_kind kind, index i) {
    if (kind == scale_kind::f32) {
        return reinterpret_cast<const float*>(at)[i];
    }
    return kind == scale_kind::f16 ? read_half(at, i)
                                   : bfloat_to_float(reinterpret_cast<const bfloat*>(at)[i]);
}

/// Reads one group of 64 inputs of one tile of affine weights (q4 or q8): scale * q + bias. `row`:
/// of the tile's 16, `k`: of the 64 inputs.
struct record {
    const std::byte* data;
    weight_kind kind;
    scale_kind scales;

    float scale(index row) const { return read_scale(data, scales, row); }
    float bias(index row) const { return read_scale(data, scales, lane_count + row); }
    int q(index row, index k) const {
        const index header = lane_count * 2 * (scales == scale_kind::f32 ? 4 : 2);
        const auto* bytes = reinterpret_cast<const std::uint8_t*>(data) + header;
        if (kind == weight_kind::q8) {
            return bytes[(k / 4) * 64 + row * 4 + k % 4];
        }
        const std::uint8_t pair = bytes[(k % 32 / 4) * 64 + row * 4 + k % 4];
        return k < 32 ? pair & 15 : pair >> 4;
    }
};

/// The record of a group of a tile of affine weights.
record record_of(const packed_matrix& w, index tile, index group) {
    const std::byte* at = w.data + static_cast<std::size_t>(tile) * w.tile_bytes() +
                          static_cast<std::size_t>(group) * w.record_bytes();
    return {at, w.kind, w.scales};
}

/// Multiplies rows with float weights, each sum over ascending inputs.
void linear_float(const packed_matrix& w, int tile_begin, int tile_end, const float* x, int count,
                  float* y, std::size_t ldy) {
    for (index m = 0; m < count; ++m) {
        for (index n = tile_begin * lane_count; n < tile_end * lane_count && n < w.rows; ++n) {
            const std::byte* tile =
                w.data + static_cast<std::size_t>(n / lane_count) * w.tile_bytes();
            float acc = 0.0f;
            for (index k = 0; k < w.cols; ++k) {
                acc = std::fma(read_float(tile, w.kind, k * lane_count + n % lane_count),
                               x[m * w.cols + k], acc);
            }
            y[static_cast<std::size_t>(m) * ldy + static_cast<std::size_t>(n)] = acc;
        }
    }
}

/// Reads one half of a group of an mxfp4 tile: 32 inputs that share an exponent in each row.
struct half_record {
    const std::uint8_t* exponents;  // [16]
    const std::uint8_t* codes;      // [4][16][4]

    float unit(index row) const { return mxfp4_unit(exponents[row]); }
    /// Twice the value of input k, 0 to 31: so it is an integer.
    int twice(index row, index k) const {
        const std::uint8_t pair = codes[k % 16 / 4 * 64 + row * 4 + k % 4];
        return mxfp4_levels[k < 16 ? pair & 15 : pair >> 4] - mxfp4_offset;
    }
};

/// The half group `block` of a tile of mxfp4 weights.
half_record half_of(const packed_matrix& w, index tile, index block) {
    const auto* at = reinterpret_cast<const std::uint8_t*>(
        w.data + static_cast<std::size_t>(tile) * w.tile_bytes() +
        static_cast<std::size_t>(block / 2) * w.record_bytes());
    return {at + block % 2 * lane_count, at + 2 * lane_count + block % 2 * 256};
}

/// The dot product of a row of mxfp4 weights and quantised activations. scales: of their groups
/// of 64.
float mxfp4_product(const packed_matrix& w, index row, const std::int8_t* q, const float* scales) {
    float acc = 0.0f;
    for (index block = 0; block < w.cols / mxfp4_half; ++block) {
        const half_record h = half_of(w, row / lane_count, block);
        std::int32_t idot = 0;
        for (index k = 0; k < mxfp4_half; ++k) {
            idot += h.twice(row % lane_count, k) * q[block * mxfp4_half + k];
        }
        acc = std::fma(h.unit(row % lane_count), static_cast<float>(idot) * scales[block / 2], acc);
    }
    return acc;
}

/// The dot product of a row of q4 or q8 weights and quantised activations. sums: of their groups,
/// for the weights' biases.
float affine_product(const packed_matrix& w, index row, const std::int8_t* q, const float* scales,
                     const float* sums) {
    float acc = 0.0f;
    for (index g = 0; g < w.cols / group_size; ++g, q += group_size) {
        const record r = record_of(w, row / lane_count, g);
        std::int32_t idot = 0;
        for (index k = 0; k < group_size; ++k) {
            idot += r.q(row % lane_count, k) * q[k];
        }
        const float scaled = static_cast<float>(idot) * scales[g];
        acc = std::fma(r.scale(row % lane_count), scaled, acc);
        acc = std::fma(r.bias(row % lane_count), sums[g], acc);
    }
    return acc;
}

/// Multiplies quantised rows with the weights of all other kinds.
void linear_quant(const packed_matrix& w, int tile_begin, int tile_end, const quantized_rows& x,
                  int count, float* y, std::size_t ldy) {
    const index groups = w.cols / group_size;
    for (index m = 0; m < count; ++m) {
        for (index n = tile_begin * lane_count; n < tile_end * lane_count && n < w.rows; ++n) {
            const std::int8_t* q = x.q + m * w.cols;
            const float *scales = x.scales + m * groups, *sums = x.sums + m * groups;
            y[static_cast<std::size_t>(m) * ldy + static_cast<std::size_t>(n)] =
                is_block_kind(w.kind)          ? block_product(w, static_cast<int>(n), q, scales)
                : w.kind == weight_kind::mxfp4 ? mxfp4_product(w, n, q, scales)
                                               : affine_product(w, n, q, scales, sums);
        }
    }
}

/// Quantises groups of 64 activations, each by its largest magnitude.
void quantize_rows(const float* x, int count, int cols, std::int8_t* q, float* scales,
                   float* sums) {
    for (index g = 0; g < static_cast<index>(count) * (cols / group_size); ++g) {
        const float* group = x + g * group_size;
        float largest = 0.0f;
        for (index i = 0; i < group_size; ++i) {
            largest = std::fmax(largest, std::fabs(group[i]));
        }
        const float scale = largest < 1e-30f ? 1.0f : largest / 127.0f;
        const float inverse = 1.0f / scale;
        int sum = 0;
        for (index i = 0; i < group_size; ++i) {
            const int value = static_cast<int>(std::nearbyint(group[i] * inverse));
            q[g * group_size + i] = static_cast<std::int8_t>(value);
            sum += value;
        }
        scales[g] = scale;
        sums[g] = scale * static_cast<float>(sum);
    }
}

void sum_parts(const std::int8_t* q, std::size_t count, std::int16_t* sums) {
    for (std::size_t i = 0; i < count; ++i) {
        int sum = 0;
        for (int k = 0; k < 16; ++k) {
            sum += q[16 * i + static_cast<std::size_t>(k)];
        }
        sums[i] = static_cast<std::int16_t>(sum);
    }
}

void rms_norm(const float* x, const float* weight, float* out, int n, float eps, bool one_plus) {
    float lanes[lane_count] = {};
    for (index i = 0; i < n; ++i) {
        lanes[i % lane_count] = std::fma(x[i], x[i], lanes[i % lane_count]);
    }
    const float factor = 1.0f / std::sqrt(fold(lanes) / static_cast<float>(n) + eps);
    for (index i = 0; i < n; ++i) {
        out[i] = x[i] * factor * (one_plus ? 1.0f + weight[i] : weight[i]);
    }
}

void add(float* x, const float* y, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
        x[i] += y[i];
    }
}

void exp_all(const float* x, float* out, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
        out[i] = exp_one(x[i]);
    }
}

void silu_mul(float* gate, const float* up, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
        gate[i] = gate[i] / (1.0f + exp_one(-gate[i])) * up[i];
    }
}

void gelu_mul(float* gate, const float* up, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
        const float x = gate[i];
        const float exponent = x * std::fma(gelu_cubic, x * x, gelu_linear);
        gate[i] = x / (1.0f + exp_one(exponent)) * up[i];
    }
}

void swiglu_clamped(float* gate, const float* up, std::size_t n, float alpha, float limit) {
    for (std::size_t i = 0; i < n; ++i) {
        const float g = std::fmin(gate[i], limit);
        const float u = std::fmax(std::fmin(up[i], limit), -limit);
        gate[i] = (u + 1.0f) * (g / (1.0f + exp_one(-alpha * g)));
    }
}

void rope(float* x, const float* cosines, const float* sines, int dim) {
    for (index i = 0; i < dim / 2; ++i) {
        const float a = x[i], b = x[i + dim / 2];
        x[i] = std::fma(a, cosines[i], -(b * sines[i]));
        x[i + dim / 2] = std::fma(b, cosines[i], a * sines[i]);
    }
}

/// Widens one row of a matrix of any kind to floats.
void embed_row(const packed_matrix& w, int index_of_row, float* out) {
    if (is_block_kind(w.kind)) {
        return embed_block_row(w, index_of_row, out);
    }
    const index tile = index_of_row / lane_count, row = index_of_row % lane_count;
    for (index k = 0; k < w.cols; ++k) {
        if (w.kind == weight_kind::mxfp4) {
            const half_record h = half_of(w, tile, k / mxfp4_half);
            out[k] = h.unit(row) * static_cast<float>(h.twice(row, k % mxfp4_half));
        } else if (w.quantized()) {
            const record r = record_of(w, tile, k / group_size);
            out[k] =
                std::fma(r.scale(row), static_cast<float>(r.q(row, k % group_size)), r.bias(row));
        } else {
            const std::byte* at = w.data + static_cast<std::size_t>(tile) * w.tile_bytes();
            out[k] = read_float(at, w.kind, k * lane_count + row);
        }
    }
}

/// The gated delta rule: S is multiplied by the decay, and changed so that the key finds more of
/// the value.
void delta_rule(const recurrent_head& head) {
    // S before the token: `from` for the first, and then what was written to `to`.
    const float* from = head.from;
    for (index t = 0; t < head.tokens; ++t) {
        const float* key = head.keys + t * static_cast<index>(head.key_stride);
        const float* query = head.queries + t * static_cast<index>(head.key_stride);
        const float* value = head.values + t * static_cast<index>(head.value_stride);
        const float decay = head.decays[t * static_cast<index>(head.number_stride)];
        const float rate = head.rates[t * static_cast<index>(head.number_stride)];
        for (index column = 0; column < head.cols; ++column) {
            float known = 0.0f, out = 0.0f;
            for (index row = 0; row < head.rows; ++row) {
                known = std::fma(from[row * head.cols + column] * decay, key[row], known);
            }
            const float change = (value[column] - known) * rate;
            for (index row = 0; row < head.rows; ++row) {
                const index at = row * head.cols + column;
                head.to[at] = std::fma(key[row], change, from[at] * decay);
                out = std::fma(head.to[at], query[row], out);
            }
            head.out[t * static_cast<index>(head.out_stride) + column] = out;
        }
        from = head.to;
    }
}

/// A state space model: S is multiplied by the decay, and gets the product of key and value.
void state_space(const recurrent_head& head) {
    // As in delta_rule().
    const float* from = head.from;
    for (index t = 0; t < head.tokens; ++t) {
        const float* key = head.keys + t * static_cast<index>(head.key_stride);
        const float* query = head.queries + t * static_cast<index>(head.key_stride);
        const float* value = head.values + t * static_cast<index>(head.value_stride);
        const float decay = head.decays[t * static_cast<index>(head.number_stride)];
        for (index column = 0; column < head.cols; ++column) {
            float out = 0.0f;
            for (index row = 0; row < head.rows; ++row) {
                const index at = row * head.cols + column;
                head.to[at] = std::fma(key[row], value[column], from[at] * decay);
                out = std::fma(head.to[at], query[row], out);
            }
            head.out[t * static_cast<index>(head.out_stride) + column] = out;
        }
        from = head.to;
    }
}

void convolve(const float* const* columns, int taps, const float* weights, const float* bias,
              std::size_t channels, bool activated, float* out) {
    for (std::size_t c = 0; c < channels; ++c) {
        float sum = bias == nullptr ? 0.0f : bias[c];
        for (int tap = 0; tap < taps; ++tap) {
            sum = std::fma(weights[static_cast<std::size_t>(tap) * channels + c], columns[tap][c],
                           sum);
        }
        out[c] = activated ? sum / (1.0f + exp_one(-sum)) : sum;
    }
}

/// Both tables have the same functions; `portable` only leaves float matrices to BLAS.
constexpr kernel_table make_table(const char* name, bool float_by_blas) {
    return {name,
            float_by_blas,
            linear_float,
            linear_quant,
            quantize_rows,
            sum_parts,
            rms_norm,
            add,
            silu_mul,
            gelu_mul,
            swiglu_clamped,
            rope,
            scalar::rotate,
            scalar::rotate_back,
            scalar::quantize_kv,
            scalar::quantize_kv_shaped,
            scalar::attend,
            scalar::merge_softmax,
            scalar::finish_softmax,
            exp_all,
            delta_rule,
            state_space,
            convolve,
            embed_row};
}

constexpr kernel_table scalar_table = make_table("scalar", false);
constexpr kernel_table portable_table = make_table("portable", true);

}  // namespace

const kernel_table& scalar_kernels() noexcept { return scalar_table; }
const kernel_table& portable_kernels() noexcept { return portable_table; }

}  // namespace semantic::engine
