// SPDX-License-Identifier: Apache-2.0
#pragma once
// A random frame with queries, quantised through a given table, and attention over it.

#include <algorithm>
#include <cmath>
#include <limits>
#include <ostream>

#include "engine/kernels/attention_scratch.hpp"
#include "engine/kernels/exp_constants.hpp"
#include "tests/engine/kernels/support.hpp"

namespace semantic::engine::kernel_tests {

struct bit_pair {
    bit_pair(int both) : k(both), v(both) {}
    bit_pair(int of_k, int of_v) : k(of_k), v(of_v) {}
    int k, v;
};
inline std::ostream& operator<<(std::ostream& out, bit_pair bits) {
    return out << "K " << bits.k << " V " << bits.v;
}
/// All that attention knows.
inline std::vector<bit_pair> known_bits() {
    std::vector<bit_pair> pairs;
    for (int k = 1; k <= 16; ++k) {
        for (int v = 1; v <= 16; ++v) {
            if (attends(k, v)) pairs.push_back({k, v});
        }
    }
    return pairs;
}

struct attention_shape {
    int count, tokens, k_dim, v_dim;
    bit_pair bits;
    bool windowed = false;  // rows see different stretches, some nothing
    bool calm = false;      // normal values only, so that many tokens share the weight
    int stored_dim = 0;     // K and V are the first elements of the same rows, this long
};

struct attention_case {
    attention_case(attention_shape s, unsigned seed)
        : shape(s),
          queries(size(s.count, s.k_dim)),
          k_rows(row_bytes(true) * static_cast<std::size_t>(s.tokens), 2),
          v_rows(shared() ? 0 : row_bytes(false) * static_cast<std::size_t>(s.tokens), 2),
          k_scales(groups(true), 2),
          k_biases(groups(true), 2),
          v_scales(shared() ? 0 : groups(false), 2),
          v_biases(shared() ? 0 : groups(false), 2),
          begin(static_cast<std::size_t>(s.count)),
          end(begin.size()) {
        source random(seed);
        fill_values(queries, random);
        choose_ranges(random);
        fill_rows(k_rows, k_scales, k_biases, true, random);
        if (!shared()) {
            fill_rows(v_rows, v_scales, v_biases, false, random);
        }
        states.assign(begin.size(), {-std::numeric_limits<float>::infinity(), 0.0f});
        out.assign(size(s.count, s.v_dim), 0.0f);
        for (std::size_t r = 0; r < states.size(); r += 3) {  // rows that have seen something
            states[r] = {random.normal(), 1.5f};
            for (int d = 0; d < s.v_dim; ++d) {
                out[r * static_cast<std::size_t>(s.v_dim) + static_cast<std::size_t>(d)] =
                    random.normal();
            }
        }
    }

    /// Rows [first, first + count) through `table`, from the case's own states into copies.
    struct result {
        std::vector<softmax_state> states;
        std::vector<float> out;
        bool inside_scratch = false;  // nothing after the scratch was written
    };
    /// next_tokens: of the frame that is named as the next one, which is this one again; 0: none.
    result run(const kernel_table& table, int first, int count, int next_tokens = 0) const {
        const auto f = static_cast<std::size_t>(first), n = static_cast<std::size_t>(count);
        const auto kd = static_cast<std::size_t>(shape.k_dim);
        const auto vd = static_cast<std::size_t>(shape.v_dim);
        result made{{states.begin() + first, states.begin() + first + count},
                    {out.begin() + static_cast<std::ptrdiff_t>(f * vd),
                     out.begin() + static_cast<std::ptrdiff_t>((f + n) * vd)}};
        const std::size_t needed =
            attention_scratch_floats(count, shape.tokens, shape.k_dim, shape.v_dim);
        buffer<float> scratch(needed + guard_floats);
        std::fill_n(scratch.begin(), needed, std::numeric_limits<float>::quiet_NaN());
        std::fill(scratch.begin() + needed, scratch.end(), guard_value);
        attention_block block;
        std::unique_ptr<test_rows> rows;
        block.count = count;
        block.queries = queries.data() + f * kd;
        if (shape.bits.k != 16) {
            rows = std::make_unique<test_rows>(table, block.queries, count, shape.k_dim);
            block.q = rows->view();
        }
        block.k = view(true);
        block.v = view(false);
        block.begin = begin.data() + f;
        block.end = end.data() + f;
        block.tokens = shape.tokens;
        block.scale = scale;
        block.state = made.states.data();
        block.out = made.out.data();
        block.scratch = scratch.data();
        if (next_tokens > 0) {
            block.next_k = block.k;
            block.next_v = block.v;
            block.next_tokens = next_tokens;
        }
        table.attend(block);
        made.inside_scratch = std::all_of(scratch.begin() + needed, scratch.end(),
                                          [](float x) { return x == guard_value; });
        return made;
    }

    /// Element d of token t of K or V, exactly.
    double element(bool key, int t, int d) const {
        const bool from_keys = key || shared();
        const buffer<std::byte>& rows = from_keys ? k_rows : v_rows;
        const auto i = size(t, row_dim(key)) + static_cast<std::size_t>(key ? d : d + misread);
        if (bits(key) == 16) {
            half value;
            std::memcpy(&value, rows.data() + 2 * i, 2);
            return static_cast<double>(to_float(value));
        }
        const unsigned q = packed_level(rows.data() + i / 64 * 8 * bits(key), bits(key), i % 64);
        return static_cast<double>(to_float((from_keys ? k_scales : v_scales)[i / 64])) * q +
               static_cast<double>(to_float((from_keys ? k_biases : v_biases)[i / 64]));
    }
    /// Scale and bias of element d of token t of V. Requires: below 16 bit.
    double value_scale(int t, int d) const {
        return static_cast<double>(to_float((shared() ? k_scales : v_scales)[value_group(t, d)]));
    }
    double value_bias(int t, int d) const {
        return static_cast<double>(to_float((shared() ? k_biases : v_biases)[value_group(t, d)]));
    }
    std::size_t value_group(int t, int d) const {
        return (size(t, row_dim(false)) + static_cast<std::size_t>(d + misread)) / 64;
    }

    bool shared() const { return shape.stored_dim != 0; }
    /// Elements from one token of K or V to the next.
    int row_dim(bool key) const {
        return shared() ? shape.stored_dim : key ? shape.k_dim : shape.v_dim;
    }

    static std::size_t size(int a, int b) {
        return static_cast<std::size_t>(a) * static_cast<std::size_t>(b);
    }
    std::size_t bits(bool key) const {
        return static_cast<std::size_t>(key ? shape.bits.k : shape.bits.v);
    }
    std::size_t row_bytes(bool key) const {
        return static_cast<std::size_t>(row_dim(key)) * bits(key) / 8;
    }
    std::size_t groups(bool key) const {
        return bits(key) == 16 ? 0 : size(shape.tokens, row_dim(key) / 64);
    }

    static constexpr std::size_t guard_floats = 256;
    static constexpr float guard_value = 12345.0f;

    attention_shape shape;
    float scale = 0.11f;
    int misread = 0;  // how far element() goes astray in a value, to see that the test notices
    buffer<float> queries;
    buffer<std::byte> k_rows, v_rows;
    buffer<half> k_scales, k_biases, v_scales, v_biases;
    std::vector<int> begin, end;
    std::vector<softmax_state> states;
    std::vector<float> out;
    int seen_begin = 0, seen_end = 0;

  private:
    kv_rows view(bool key) const {
        const bool from_keys = key || shared();
        return {(from_keys ? k_rows : v_rows).data(),
                (from_keys ? k_scales : v_scales).data(),
                (from_keys ? k_biases : v_biases).data(),
                key ? shape.k_dim : shape.v_dim,
                key ? shape.bits.k : shape.bits.v,
                row_bytes(key),
                row_dim(key) / 64};
    }
    void fill_values(buffer<float>& values, source& random) {
        for (float& value : values) {
            value = shape.calm ? random.normal() : random.any();
        }
    }
    void choose_ranges(source& random) {
        seen_begin = shape.tokens;
        const int floor = shape.windowed ? random.below(shape.tokens / 2 + 1) : 0;
        for (std::size_t r = 0; r < begin.size(); ++r) {
            begin[r] = 0;
            end[r] = shape.tokens;
            if (shape.windowed) {
                begin[r] = floor + random.below(shape.tokens - floor);
                end[r] = begin[r] + random.below(shape.tokens - begin[r] + 1);
            }
            if (begin[r] < end[r]) {
                seen_begin = std::min(seen_begin, begin[r]);
                seen_end = std::max(seen_end, end[r]);
            }
        }
    }
    /// Tokens outside what is seen are all ones: NaN wherever they are read as numbers.
    void fill_rows(buffer<std::byte>& rows, buffer<half>& scales, buffer<half>& biases, bool key,
                   source& random) {
        const int dim = row_dim(key);
        std::memset(rows.data(), 0xff, rows.size());
        std::fill(scales.begin(), scales.end(), half{0xffff});
        std::fill(biases.begin(), biases.end(), half{0xffff});
        buffer<float> x(static_cast<std::size_t>(dim));
        for (int t = seen_begin; t < seen_end; ++t) {
            fill_values(x, random);
            const std::size_t group = bits(key) == 16 ? 0 : size(t, dim / 64);
            find_kernels("scalar")->quantize_kv(
                x.data(), dim, static_cast<int>(bits(key)), kv_rounding::mlx,
                rows.data() + static_cast<std::size_t>(t) * row_bytes(key), scales.data() + group,
                biases.data() + group);
        }
    }
};

/// What attention gives for one row before the division by its sum, and how far both may be off
/// because weights are rounded: a level may be the next one where it lies close to the middle.
struct attention_answer {
    std::vector<double> out, slack;
    double sum_slack = 0;
};

/// Σ p * v of the group of 64 elements from `first` on, with weights rounded in tiles of 64 tokens.
/// `error`: the relative one of p before the roundings that kernel_table::attend names.
inline void weigh_rounded(const attention_case& c, int r, int first, const std::vector<double>& p,
                          double error, attention_answer& to) {
    // Half a step of 2^-11, of an exponent of 2; the polynomial; twice 32767 / 32768.
    error += 0.5 / 2048 * std::log(2.0) + 1.1e-4 + 2.0 / 32768;
    const double half = 0.51 / 32767;             // rounding p, or a size, or their product
    const double of_tile = 1.1e-4 + 2.0 / 32768;  // the power of two of the tile's highest score
    const auto row = static_cast<std::size_t>(r);
    const int begin = c.begin[row], end = c.end[row], middle = 1 << (c.shape.bits.v - 1);
    for (int tile = begin / 64 * 64; tile < end; tile += 64) {
        const int from = std::max(tile, begin), stop = std::min(tile + 64, end);
        const auto centre_of = [&](int t) {
            const double scale = c.value_scale(t, first);
            return c.value_bias(t, first) + scale * (scale < 0 ? middle - 1 : middle);
        };
        double highest = 0, size = 0, centre_size = 0;
        for (int t = from; t < stop; ++t) {
            highest = std::max(highest, p[static_cast<std::size_t>(t - begin)]);
            size = std::max(size, std::abs(c.value_scale(t, first)));
            centre_size = std::max(centre_size, std::abs(centre_of(t)));
        }
        const double unit = highest * size / 255;
        for (int t = from; t < stop; ++t) {
            const double weight = p[static_cast<std::size_t>(t - begin)] / highest;
            const double scale = std::abs(c.value_scale(t, first)), centre = centre_of(t);
            const double exact = 255 * weight * scale / size + 255 * level_dither(t % 64) / 32768.0,
                         level = std::clamp(std::nearbyint(exact), 0.0, 255.0);
            const double off = error * weight + half;
            const bool near = 0.5 - std::abs(exact - level) < 255 * (off + 2 * half);
            if (first == 0) to.sum_slack += highest * (off + of_tile * weight);
            for (int d = first; d < first + 64; ++d) {
                // v = |scale| * offset + centre
                const double offset = (c.element(false, t, d) - centre) / scale;
                const auto at = static_cast<std::size_t>(d);
                const double added = highest * weight * centre + unit * level * offset;
                to.out[at] += added;
                to.slack[at] +=
                    of_tile * std::abs(added) + (near ? unit * std::abs(offset) : 0.0) +
                    highest * (off * std::abs(centre) + weight * centre_size * 0.51 / 16383);
            }
        }
    }
}

}  // namespace semantic::engine::kernel_tests
