// SPDX-License-Identifier: Apache-2.0
// The definition of what is done with keys and values: quantising them and attention over a frame,
// slow, obvious, never optimised. The other tables of kernels must give the same bits. A number in
// parentheses, such as (8), is a formula of ARITHMETIC.md, whose symbols the comments use, too.

#include "engine/kernels/scalar_attention.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>

#include "engine/kernels/attention_scratch.hpp"
#include "engine/kernels/exp_constants.hpp"
#include "engine/kernels/kv_constants.hpp"

namespace semantic::engine::scalar {

/// e^x: the power of two nearest to it is split off, and a polynomial gives the rest. Results
/// beyond the normal numbers are 0 or infinite.
float exp_one(float x) {
    const float shifted = std::fma(x, exp_log2e, exp_magic);
    const float n = shifted - exp_magic;
    float r = std::fma(n, -exp_ln2_high, x);
    r = std::fma(n, -exp_ln2_low, r);
    float p = exp_coefficients[0];
    for (int i = 1; i < exp_coefficient_count; ++i) {
        p = std::fma(p, r, exp_coefficients[i]);
    }
    const std::uint32_t bits =
        std::bit_cast<std::uint32_t>(p) + (std::bit_cast<std::uint32_t>(shifted) << 23);
    if (x < exp_underflow) {
        return 0.0f;
    }
    return x > exp_overflow ? std::numeric_limits<float>::infinity() : std::bit_cast<float>(bits);
}

float fold(float* lanes) {
    for (int half_width = lane_count / 2; half_width > 0; half_width /= 2) {
        for (int i = 0; i < half_width; ++i) {
            lanes[i] += lanes[i + half_width];
        }
    }
    return lanes[0];
}

namespace {

using index = std::ptrdiff_t;

float read_half(const std::byte* at, index i) {
    return to_float(reinterpret_cast<const half*>(at)[i]);
}

/// 2^x for x <= 0, by formula (8) of ARITHMETIC.md: a polynomial for the fraction, and the integer
/// part added to the exponent. Adding exp_magic rounds x to an integer in its lowest bits.
float exp2_one(float x) {
    x = std::fmax(x, exp2_lowest);
    const float shifted = x + exp_magic;
    const float r = x - (shifted - exp_magic);
    float p = exp2_coefficients[0];
    for (int i = 1; i < exp2_coefficient_count; ++i) {
        p = std::fma(p, r, exp2_coefficients[i]);
    }
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(p) +
                                (std::bit_cast<std::uint32_t>(shifted) << 23));
}

/// The nearest value within the finite range of f16.
float clamp_to_half(float value) { return std::fmin(std::fmax(value, -65504.0f), 65504.0f); }

half to_finite_half(float value) { return to_half(clamp_to_half(value)); }

/// Where a packed group has some of the bits above the low four of all its integers; kv_rows states
/// the layout.
struct plane {
    index at;   // byte of the group where it begins
    int first;  // its lowest bit
    int width;  // bits of an element
    index byte_of(index e) const { return at + number_of(e) / (8 / width) * 4 + e % 8 / 2; }
    int shift_of(index e) const { return static_cast<int>(number_of(e) % (8 / width)) * width; }

  private:
    static index number_of(index e) { return e / 8 * 2 + e % 2; }
};

/// The planes of a group whose integers have `bits` bits, 4 to 7; none for 4.
std::span<const plane> planes_of(int bits) {
    static constexpr plane one[] = {{32, 4, 1}}, two[] = {{32, 4, 2}, {48, 6, 1}};
    return bits == 5 ? std::span<const plane>(one)
                     : std::span<const plane>(two).first(bits == 4   ? 0
                                                         : bits == 6 ? 1
                                                                     : 2);
}

/// Packs the integers of a group in the form that kv_rows states. out: [64 * bits / 8]
void pack_group(const std::uint8_t* q, int bits, std::byte* out) {
    std::fill_n(out, group_size * bits / 8, std::byte{0});
    if (bits == 8) {
        std::memcpy(out, q, group_size);
        return;
    }
    for (index e = 0; e < group_size; ++e) {
        out[e / 2] |= static_cast<std::byte>((q[e] & 15) << (e % 2 * 4));
        for (const plane& each : planes_of(bits)) {
            const int field = q[e] >> each.first & ((1 << each.width) - 1);
            out[each.byte_of(e)] |= static_cast<std::byte>(field << each.shift_of(e));
        }
    }
}

/// An element of a group is scale * integer + bias.
struct scale_and_bias {
    float scale, bias;
};

/// Quantises a group: the integers (x - bias) / scale, rounded and clamped to 0 ... `steps`.
void round_group(const float* x, scale_and_bias by, float steps, std::uint8_t* q) {
    for (index i = 0; i < group_size; ++i) {
        const float level = std::nearbyint((x[i] - by.bias) / by.scale);
        q[i] = static_cast<std::uint8_t>(std::fmin(std::fmax(level, 0.0f), steps));
    }
}

/// The least and the greatest element of a group.
struct span_of_group {
    float low, high;
};

span_of_group span_of(const float* x) {
    span_of_group span{x[0], x[0]};
    for (index i = 1; i < group_size; ++i) {
        span = {std::fmin(span.low, x[i]), std::fmax(span.high, x[i])};
    }
    return span;
}

/// Quantises a group as MLX does, by formula (24) of ARITHMETIC.md: the scale is changed so that 0
/// and the element of greatest magnitude are exact. `steps`: the greatest integer.
scale_and_bias round_mlx(const float* x, float steps, std::uint8_t* q) {
    const auto [low, high] = span_of(x);
    const bool use_low = std::fabs(low) > std::fabs(high);
    float scale = std::fmax((high - low) / steps, least_kv_scale);
    scale = use_low ? scale : -scale;
    const float edge = use_low ? low : high;
    const float zero_step = std::nearbyint(edge / scale);
    if (zero_step != 0.0f) {
        scale = edge / zero_step;
    }
    const float bias = zero_step != 0.0f ? edge : 0.0f;
    round_group(x, {scale, bias}, steps, q);
    return {scale, bias};
}

/// As round_group(), but multiplies by the inverse of the scale, which rounds otherwise.
void round_by_inverse(const float* x, scale_and_bias by, float steps, std::uint8_t* q) {
    const float inverse = 1.0f / by.scale;
    for (index i = 0; i < group_size; ++i) {
        const float level = std::nearbyint((x[i] - by.bias) * inverse);
        q[i] = static_cast<std::uint8_t>(std::fmin(std::fmax(level, 0.0f), steps));
    }
}

/// Quantises a group by formula (25) of ARITHMETIC.md: scale and bias are fitted by least squares
/// to the integers, which are then rounded again, kv_fits times.
scale_and_bias round_fitted(const float* x, float steps, std::uint8_t* q) {
    float v[group_size], y[group_size], lanes[lane_count] = {};
    std::transform(x, x + group_size, v, clamp_to_half);
    const auto [low, high] = span_of(v);
    for (index i = 0; i < group_size; ++i) {
        y[i] = v[i] - low;
        lanes[i % lane_count] += y[i];
    }
    const float total = fold(lanes);
    scale_and_bias line{std::fmax((high - low) / steps, least_kv_scale), low};
    for (int fit = 0; fit < kv_fits; ++fit) {
        round_by_inverse(v, line, steps, q);
        int sum = 0, squares = 0;
        float products[lane_count] = {};
        for (index i = 0; i < group_size; ++i) {
            sum += q[i];
            squares += q[i] * q[i];
            float& lane = products[i % lane_count];
            lane = std::fma(static_cast<float>(q[i]), y[i], lane);
        }
        const float codes = static_cast<float>(sum);
        const int spread = group_size * squares - sum * sum;
        if (spread > 0) {
            const float common = std::fma(-codes, total, group_size * fold(products));
            line.scale = std::fmax(common / static_cast<float>(spread), least_kv_scale);
        }
        // The last scale is stored as f16: the bias is found for the number that f16 has.
        if (fit == kv_fits - 1) {
            line.scale = to_float(to_finite_half(line.scale));
        }
        line.bias = std::fma(std::fma(-line.scale, codes, total), 1.0f / group_size, low);
    }
    line.bias = to_float(to_finite_half(line.bias));
    round_by_inverse(v, line, steps, q);
    return line;
}

/// The normalised Hadamard transform of each block of a head, a step of formulas (22) and (23). It
/// is its own inverse.
void transform(float* x, int dim) {
    const index block = rotation_block(dim);
    for (index width = 1; width < block; width *= 2) {
        for (index i = 0; i < dim; ++i) {
            if ((i & width) == 0) {
                const float a = x[i], b = x[i + width];
                x[i] = a + b;
                x[i + width] = a - b;
            }
        }
    }
    const float norm = 1.0f / std::sqrt(static_cast<float>(block));
    for (index i = 0; i < dim; ++i) {
        x[i] *= norm;
    }
}

/// The packed integer of element d of token t. Requires: kv.bits <= 8.
int kv_q(const kv_rows& kv, index t, index d) {
    const auto* row =
        reinterpret_cast<const std::uint8_t*>(kv.rows) + static_cast<std::size_t>(t) * kv.row_bytes;
    const std::uint8_t* group = row + d / group_size * group_size * kv.bits / 8;
    const index e = d % group_size;
    if (kv.bits == 8) {
        return group[e];
    }
    int q = group[e / 2] >> (e % 2 * 4) & 15;
    for (const plane& each : planes_of(kv.bits)) {
        q |= (group[each.byte_of(e)] >> each.shift_of(e) & ((1 << each.width) - 1)) << each.first;
    }
    return q;
}

/// Element d of token t as a number.
float kv_value(const kv_rows& kv, index t, index d) {
    if (kv.bits == 16) {
        return read_half(kv.rows + static_cast<std::size_t>(t) * kv.row_bytes, d);
    }
    const index group = t * kv.row_scales + d / group_size;
    return std::fma(static_cast<float>(kv_q(kv, t, d)), to_float(kv.scales[group]),
                    to_float(kv.biases[group]));
}

/// The dot product of query r and the key of token t, by formulas (1) and (2) of ARITHMETIC.md.
/// Requires: keys below 16 bit. `scale`: a factor on the query's scales and sums.
float quantised_score(const attention_block& block, index r, index t, float scale) {
    const kv_rows& k = block.k;
    const index groups = k.dim / group_size;
    float acc = 0.0f;
    for (index g = 0; g < groups; ++g) {
        std::int32_t idot = 0;
        for (index d = g * group_size; d < (g + 1) * group_size; ++d) {
            idot += kv_q(k, t, d) * block.q.q[r * k.dim + d];
        }
        const index at = t * k.row_scales + g;
        const float q_scale = block.q.scales[r * groups + g] * scale;
        acc = std::fma(to_float(k.biases[at]), block.q.sums[r * groups + g] * scale, acc);
        acc = std::fma(to_float(k.scales[at]) * q_scale, static_cast<float>(idot), acc);
    }
    return acc;
}

/// The score of query r and token t where values have 8 or 16 bits, by formulas (1) to (3).
float score(const attention_block& block, index r, index t) {
    if (block.k.bits == 8) {
        return block.scale * quantised_score(block, r, t, 1.0f);
    }
    float acc = 0.0f;
    for (index d = 0; d < block.k.dim; ++d) {
        acc = std::fma(block.queries[r * block.k.dim + d], kv_value(block.k, t, d), acc);
    }
    return block.scale * acc;
}

/// The running values of a query row over the tiles of one frame, for one group of values: M (the
/// maximum of the scores), l (the sum of the weights), C (that of the weighted centres) and O (the
/// weighted values) of ARITHMETIC.md.
struct tile_state {
    float max = -std::numeric_limits<float>::infinity();
    float sums[lane_count] = {};
    float centres[lane_count] = {};
    float out[group_size] = {};
};

/// 2^x in units of 1 / weight_one, for x = -a / weight_steps with 0 <= a <= 32768, by formula (10):
/// a polynomial for the fraction, and a shift for the integer part.
int exp2_fixed(std::uint32_t a) {
    const std::uint32_t fraction = a << (16 - weight_step_bits) & 0xffffu;
    std::uint32_t h = weight_coefficients[2] * fraction >> 16;
    h = (weight_coefficients[1] - h) * fraction >> 16;
    h = (weight_coefficients[0] - h) * fraction >> 16;
    return static_cast<int>(((2u * weight_one - h) >> (a >> weight_step_bits)) + 1) >> 1;
}

/// a * b / 2^15, rounded half up: mulr() of ARITHMETIC.md.
int multiply_rounded(int a, int b) { return (a * b + (1 << 14)) >> 15; }

/// Which of the 16 partial sums of formulas (11) and (14) token t of a tile belongs to. The order
/// is the one in which the vector kernels hold tokens.
index weight_lane(index t) { return t % 16 / 4 * 4 + t / 16 % 2 * 2 + t % 4 / 2; }

/// Adds the weighted values of the tokens [begin, end) of one tile of 64 to `state`, for one group
/// of elements, by formulas (6) to (16) of ARITHMETIC.md. x: the tokens' scores to base 2.
void attend_tile(const kv_rows& v, index group, const float* x, index begin, index end,
                 tile_state& state) {
    const float highest = *std::max_element(x, x + (end - begin));  // (6), (7)
    // Adding 0 makes 0 of -0.
    const float max =
        std::fmax(state.max, (std::ceil(highest / maximum_step) + 0.0f) * maximum_step);
    if (state.max < max && state.max > -std::numeric_limits<float>::infinity()) {
        const float factor = exp2_one(state.max - max);
        for (float& value : state.out) value *= factor;
        for (int i = 0; i < lane_count; ++i) {
            state.sums[i] *= factor;
            state.centres[i] *= factor;
        }
    }
    state.max = max;
    const float factor = exp2_one(highest - max);

    const int middle = 1 << (v.bits - 1);
    float sizes[attention_tile_tokens], centres[attention_tile_tokens];  // (12), (13)
    float largest_size = 0.0f, largest_centre = 0.0f;
    for (index t = begin; t < end; ++t) {
        const index at = t * v.row_scales + group, i = t - begin;
        const float scale = to_float(v.scales[at]);
        sizes[i] = std::fabs(scale);
        centres[i] = std::fma(scale, static_cast<float>(scale < 0.0f ? middle - 1 : middle),
                              to_float(v.biases[at]));
        largest_size = std::fmax(largest_size, sizes[i]);
        largest_centre = std::fmax(largest_centre, std::fabs(centres[i]));
    }
    const float size_factor = largest_size > 0.0f ? weight_one / largest_size : 0.0f;
    const float centre_factor = largest_centre > 0.0f ? centre_one / largest_centre : 0.0f;

    std::int32_t sum[lane_count] = {}, centre[lane_count] = {}, idot[group_size] = {};
    for (index t = begin; t < end; ++t) {
        const index i = t - begin, lane = weight_lane(t % attention_tile_tokens);
        // (9), (10), and the sums of (11), (14) and (16).
        const float steps = std::nearbyint(std::fma(x[i], weight_steps, highest * -weight_steps));
        // Weights below 2^-16 are 0.
        const int p = exp2_fixed(static_cast<std::uint32_t>(-std::fmax(steps, -32768.0f)));
        sum[lane] += p;
        centre[lane] += p * static_cast<int>(std::nearbyint(centres[i] * centre_factor));
        const int size = static_cast<int>(std::nearbyint(sizes[i] * size_factor));
        const int dithered =
            multiply_rounded(p, size) + level_dither(static_cast<int>(t % attention_tile_tokens));
        const int level = multiply_rounded(std::min(dithered, 32767), level_one);
        const bool negative = to_float(v.scales[t * v.row_scales + group]) < 0.0f;
        for (index d = 0; d < group_size; ++d) {
            const int q = kv_q(v, t, group * group_size + d);
            idot[d] += level * ((negative ? 2 * middle - 1 - q : q) - middle);
        }
    }
    const float centre_unit = factor * (largest_centre * weighed_centre);
    for (int i = 0; i < lane_count; ++i) {
        state.sums[i] = std::fma(static_cast<float>(sum[i]), factor * weight_unit, state.sums[i]);
        state.centres[i] = std::fma(static_cast<float>(centre[i]), centre_unit, state.centres[i]);
    }
    const float unit = factor * (largest_size * level_size);
    for (index d = 0; d < group_size; ++d) {
        state.out[d] = std::fma(unit, static_cast<float>(idot[d]), state.out[d]);
    }
}

/// Attention of query row r over the frame, tile by tile, up to formula (17). out: [v.dim], not yet
/// divided by the sum of the weights, which is returned with the maximum.
softmax_state attend_tiles(const attention_block& block, index r, float* out) {
    const index begin = block.begin[r], end = block.end[r];
    softmax_state result{};
    for (index group = 0; group < block.v.dim / group_size; ++group) {
        tile_state state;
        for (index tile = begin / attention_tile_tokens * attention_tile_tokens; tile < end;
             tile += attention_tile_tokens) {
            const index from = std::max(tile, begin);
            const index to = std::min(tile + attention_tile_tokens, end);
            float x[attention_tile_tokens];
            // The scores are the same for each group of values, and so are the maximum and the sum
            // below.
            for (index t = from; t < to; ++t) {
                x[t - from] = quantised_score(block, r, t, block.scale * exp_log2e);
            }
            attend_tile(block.v, group, x, from, to, state);
        }
        const float base = fold(state.centres);
        for (index d = 0; d < group_size; ++d) {
            out[group * group_size + d] = state.out[d] + base;
        }
        result = {state.max * exp_ln2, fold(state.sums)};
    }
    return result;
}

/// Attention of query row r over the frame where values have 8 or 16 bits, by formulas (4) and (5).
/// p: room for [tokens]; out: [v.dim]
softmax_state attend_wide(const attention_block& block, index r, float* p, float* out) {
    const index begin = block.begin[r], end = block.end[r];
    softmax_state state{-std::numeric_limits<float>::infinity(), 0.0f};
    for (index t = begin; t < end; ++t) {
        p[t] = score(block, r, t);
        state.max = std::fmax(state.max, p[t]);
    }
    float lanes[lane_count] = {};
    for (index t = begin; t < end; ++t) {
        p[t] = exp_one(p[t] - state.max);
        lanes[t % lane_count] += p[t];
    }
    state.sum = fold(lanes);
    for (index d = 0; d < block.v.dim; ++d) {
        out[d] = 0.0f;
        for (index t = begin; t < end; ++t) {
            out[d] = std::fma(p[t], kv_value(block.v, t, d), out[d]);
        }
    }
    return state;
}

}  // namespace

/// Turns a head by signs and a Hadamard transform, formula (22) of ARITHMETIC.md.
void rotate(float* x, int dim) {
    for (index i = 0; i < dim; ++i) {
        x[i] *= rotation_signs[static_cast<std::size_t>(i) % rotation_signs.size()];
    }
    transform(x, dim);
}

/// The inverse of rotate(), formula (23) of ARITHMETIC.md.
void rotate_back(float* x, int dim) {
    transform(x, dim);
    for (index i = 0; i < dim; ++i) {
        x[i] *= rotation_signs[static_cast<std::size_t>(i) % rotation_signs.size()];
    }
}

/// Quantises a key or value row group by group, or rounds it to f16.
void quantize_kv(const float* x, int dim, int bits, kv_rounding rounding, std::byte* row,
                 half* scales, half* biases) {
    if (bits == 16) {
        for (index i = 0; i < dim; ++i) {
            reinterpret_cast<half*>(row)[i] = to_finite_half(x[i]);
        }
        return;
    }
    const auto rule = rounding == kv_rounding::mlx ? round_mlx : round_fitted;
    for (index g = 0; g < dim / group_size; ++g) {
        std::uint8_t q[group_size];
        const scale_and_bias found =
            rule(x + g * group_size, static_cast<float>((1 << bits) - 1), q);
        pack_group(q, bits, row + g * group_size * bits / 8);
        scales[g] = to_finite_half(found.scale);
        biases[g] = to_finite_half(found.bias);
    }
}

/// Quantises a key by formula (26) of ARITHMETIC.md: the error of each element is made up for in
/// the elements after it, by the factors key.feedback [dim][dim].
void quantize_shaped_key(const shaped_key& key, int dim, int bits) {
    const float steps = static_cast<float>((1 << bits) - 1);
    float wanted[shaped_dim_max];
    std::uint8_t q[shaped_dim_max];
    std::transform(key.x, key.x + dim, wanted, clamp_to_half);
    scale_and_bias lines[shaped_dim_max / group_size];
    // Only its lines are used: the integers are chosen again below, one after the other.
    for (index g = 0; g < dim / group_size; ++g)
        lines[g] = round_fitted(key.x + g * group_size, steps, q + g * group_size);
    for (index i = 0; i < dim; ++i) {
        const scale_and_bias line = lines[i / group_size];
        const float level = std::nearbyint((wanted[i] - line.bias) * (1.0f / line.scale));
        const float code = std::fmin(std::fmax(level, 0.0f), steps);
        q[i] = static_cast<std::uint8_t>(code);
        const float error = std::fma(line.scale, code, line.bias) - clamp_to_half(key.x[i]);
        for (index j = i + 1; j < dim; ++j)
            wanted[j] = std::fma(-error, key.feedback[i * dim + j], wanted[j]);
    }
    for (index g = 0; g < dim / group_size; ++g) {
        pack_group(q + g * group_size, bits, key.row + g * group_size * bits / 8);
        key.scales[g] = to_finite_half(lines[g].scale);
        key.biases[g] = to_finite_half(lines[g].bias);
    }
}

void quantize_kv_shaped(const shaped_key* keys, int count, int dim, int bits) {
    for (int i = 0; i < count; ++i) quantize_shaped_key(keys[i], dim, bits);
}

/// Adds the attention over another part of the tokens to `total`, by formula (18) of ARITHMETIC.md:
/// both are scaled to the greater maximum first.
void merge_softmax(softmax_state& total, float* total_out, const softmax_state& from,
                   const float* from_out, int dim) {
    const float largest = std::fmax(total.max, from.max);
    const float a = exp_one(total.max - largest), b = exp_one(from.max - largest);
    total.max = largest;
    total.sum = std::fma(total.sum, a, from.sum * b);
    for (index d = 0; d < dim; ++d) {
        total_out[d] = std::fma(total_out[d], a, from_out[d] * b);
    }
}

/// Attention of each query row over the frame, merged into the row's state. Rows that see no token
/// keep theirs.
void attend(const attention_block& block) {
    const float_attention_scratch parts =
        lay_out_float_attention(block.count, block.tokens, block.k.dim, block.v.dim);
    float* p = block.scratch + parts.scores;  // [tokens]
    float* out = block.scratch + parts.out;   // [v.dim]
    for (index r = 0; r < block.count; ++r) {
        if (block.begin[r] >= block.end[r]) {
            continue;
        }
        const softmax_state state =
            block.v.bits < 8 ? attend_tiles(block, r, out) : attend_wide(block, r, p, out);
        merge_softmax(block.state[r], block.out + r * block.v.dim, state, out, block.v.dim);
    }
}

/// Divides the weighted values by the sum of the weights, formula (19) of ARITHMETIC.md.
void finish_softmax(const softmax_state& state, float* out, int dim) {
    const float inverse = 1.0f / state.sum;
    for (index d = 0; d < dim; ++d) {
        out[d] *= inverse;
    }
}

}  // namespace semantic::engine::scalar
