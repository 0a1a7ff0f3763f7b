// SPDX-License-Identifier: Apache-2.0
// Every table gives the bits of the scalar table, and a row's bits do not depend on its neighbours.

#include <gtest/gtest.h>

#include <deque>

#include "tests/engine/kernels/attention_case.hpp"
#include "tests/engine/kernels/support.hpp"
#include "tests/engine/kernels/table_under_test.hpp"

namespace semantic::engine::kernel_tests {
namespace {

class kernel_table_of : public testing::TestWithParam<const char*> {
  protected:
    void SetUp() override {
        table_ = table_under_test(GetParam());
        if (table_ == nullptr) {
            GTEST_SKIP() << "skipped: this CPU does not run " << GetParam();
        }
    }
    const kernel_table& scalar_ = *find_kernels("scalar");
    const kernel_table* table_ = nullptr;
    source random_{7};
};

constexpr int row_counts[] = {1, 2, 3, 4, 5, 6, 7, 11, 12, 13, 23, 40};

TEST_P(kernel_table_of, quantised_products_equal_scalar) {
    for (const weight_kind kind : {weight_kind::q4, weight_kind::q8}) {
        for (const scale_kind scales : {scale_kind::f16, scale_kind::bf16, scale_kind::f32}) {
            for (const int rows : {1, 16, 17, 48, 70}) {
                const int cols = 64 * (1 + random_.below(4)) + (rows == 48 ? 17 * 64 : 0);
                const test_matrix m = make_quant_matrix(kind, scales, rows, cols, random_);
                for (const int count : row_counts) {
                    buffer<float> x(attention_case::size(count, cols), 4);
                    random_.fill(x);
                    const test_rows q(scalar_, x.data(), count, cols);
                    const std::size_t ldy = static_cast<std::size_t>(rows) + 3;
                    buffer<float> a(ldy * static_cast<std::size_t>(count), 4), b(a.size(), 4);
                    const int tiles = m.packed.tiles();
                    scalar_.linear_quant(m.packed, 0, tiles, q.view(), count, a.data(), ldy);
                    table_->linear_quant(m.packed, 0, tiles, q.view(), count, b.data(), ldy);
                    ASSERT_TRUE(same_bits(a.data(), b.data(), a.size()))
                        << rows << "x" << cols << " by " << count;
                }
            }
        }
    }
}

TEST_P(kernel_table_of, mxfp4_products_equal_scalar) {
    for (const int rows : {1, 16, 17, 48, 70}) {
        const int cols = 64 * (1 + random_.below(4)) + (rows == 48 ? 17 * 64 : 0);
        const int low = rows < 18 ? 0 : 117;  // 0 and 1 make subnormal units
        const int high = rows == 16 ? 2 : rows == 17 ? 200 : 125;
        const test_matrix m = make_mxfp4_matrix(rows, cols, random_, low, high);
        for (const int count : row_counts) {
            buffer<float> x(attention_case::size(count, cols), 4);
            random_.fill(x);
            const test_rows q(scalar_, x.data(), count, cols);
            const std::size_t ldy = static_cast<std::size_t>(rows) + 3;
            buffer<float> a(ldy * static_cast<std::size_t>(count), 4), b(a.size(), 4);
            const int tiles = m.packed.tiles();
            scalar_.linear_quant(m.packed, 0, tiles, q.view(), count, a.data(), ldy);
            table_->linear_quant(m.packed, 0, tiles, q.view(), count, b.data(), ldy);
            ASSERT_TRUE(same_bits(a.data(), b.data(), a.size()))
                << rows << "x" << cols << " by " << count;
        }
    }
}

// The corrections of one pass cover 4096 groups, of mxfp4 and, in some tables, of 8 bits: exactly
// as many, one more, and rows that take several passes.
TEST_P(kernel_table_of, products_in_several_passes_equal_scalar) {
    const struct {
        int cols, count;
    } shapes[] = {{4096 * 64, 1}, {4097 * 64, 2}, {1024 * 64, 4}, {1024 * 64, 5}, {1365 * 64, 7}};
    for (const weight_kind kind : {weight_kind::mxfp4, weight_kind::q8}) {
        for (const auto& shape : shapes) {
            const test_matrix m =
                kind == weight_kind::q8
                    ? make_quant_matrix(kind, scale_kind::f16, 5, shape.cols, random_)
                    : make_mxfp4_matrix(5, shape.cols, random_);
            buffer<float> x(attention_case::size(shape.count, shape.cols));
            random_.fill(x);
            const test_rows q(scalar_, x.data(), shape.count, shape.cols);
            buffer<float> a(static_cast<std::size_t>(5 * shape.count)), b(a.size());
            scalar_.linear_quant(m.packed, 0, 1, q.view(), shape.count, a.data(), 5);
            table_->linear_quant(m.packed, 0, 1, q.view(), shape.count, b.data(), 5);
            ASSERT_TRUE(same_bits(a.data(), b.data(), a.size()))
                << shape.cols << " " << shape.count;
        }
    }
}

TEST_P(kernel_table_of, largest_mxfp4_codes_do_not_overflow) {
    for (const unsigned byte : {0x77u, 0xffu}) {  // 6 and -6
        for (const float sign : {1.0f, -1.0f}) {
            packed_matrix w{weight_kind::mxfp4, scale_kind::f16, 48, 128, nullptr};
            const std::vector<std::byte> blocks(48 * 64, static_cast<std::byte>(byte));
            const std::vector<std::byte> scales(48 * 4, std::byte{127});
            buffer<std::byte> data(w.bytes());
            pack_mxfp4(w, {blocks.data(), scales.data()}, 0, 3, data.data());
            w.data = data.data();
            buffer<float> x(7 * 128), a(7 * 48), b(7 * 48);
            std::fill(x.begin(), x.end(), sign);
            const test_rows q(scalar_, x.data(), 7, 128);
            scalar_.linear_quant(w, 0, 3, q.view(), 7, a.data(), 48);
            table_->linear_quant(w, 0, 3, q.view(), 7, b.data(), 48);
            ASSERT_TRUE(same_bits(a.data(), b.data(), a.size()));
            ASSERT_NEAR(a[0], sign * 128 * (byte == 0x77u ? 6.0f : -6.0f), 0.1f);
        }
    }
}

// Every integer at its largest, and those of weights at their least, too, which some tables shift
// by half their range: the sums that 16 bits hold come closest to overflow.
TEST_P(kernel_table_of, largest_integers_do_not_overflow) {
    for (const weight_kind kind : {weight_kind::q4, weight_kind::q8}) {
        for (const auto& [sign, code] : {std::pair(1.0f, 0xff), std::pair(-1.0f, 0xff),
                                         std::pair(1.0f, 0), std::pair(-1.0f, 0)}) {
            const packed_matrix shape{kind, scale_kind::f32, 48, 128, nullptr};
            const std::vector<std::byte> words(48 * 128, static_cast<std::byte>(code));
            const std::vector<float> ones(48 * 2, 1.0f);
            const auto* scales = reinterpret_cast<const std::byte*>(ones.data());
            buffer<std::byte> data(shape.bytes());
            pack_mlx(shape, {words.data(), scales, scales}, 0, 3, data.data());
            packed_matrix w = shape;
            w.data = data.data();
            buffer<float> x(7 * 128), a(7 * 48), b(7 * 48);
            std::fill(x.begin(), x.end(), sign);
            const test_rows q(scalar_, x.data(), 7, 128);
            scalar_.linear_quant(w, 0, 3, q.view(), 7, a.data(), 48);
            table_->linear_quant(w, 0, 3, q.view(), 7, b.data(), 48);
            ASSERT_TRUE(same_bits(a.data(), b.data(), a.size()));
            const float weight = code == 0 ? 1.0f : kind == weight_kind::q4 ? 16.0f : 256.0f;
            ASSERT_NEAR(a[0], sign * 128 * weight, 0.1f);
        }
    }
}

// The same of keys, and of values u - 2^(bits - 1) whose weights are all at their largest.
TEST_P(kernel_table_of, largest_integers_of_k_and_v_do_not_overflow) {
    for (const bit_pair bits : known_bits()) {
        if (bits.k == 16) continue;
        for (const int code : {0x00, 0xff}) {
            for (const int count : {1, 3, 13}) {
                attention_case c({count, 70, 128, 64, bits}, 9);
                std::fill(c.queries.begin(), c.queries.end(), code == 0 ? -1.0f : 1.0f);
                std::memset(c.k_rows.data(), 0xff, c.k_rows.size());
                std::memset(c.v_rows.data(), code, c.v_rows.size());
                std::fill(c.k_scales.begin(), c.k_scales.end(), to_half(0.001f));
                std::fill(c.v_scales.begin(), c.v_scales.end(), to_half(1.0f));
                std::fill(c.k_biases.begin(), c.k_biases.end(), half{0});
                std::fill(c.v_biases.begin(), c.v_biases.end(), half{0});
                const auto a = c.run(scalar_, 0, count), b = c.run(*table_, 0, count);
                ASSERT_TRUE(same_bits(a.states.data(), b.states.data(), a.states.size())) << bits;
                ASSERT_TRUE(same_bits(a.out.data(), b.out.data(), a.out.size())) << bits;
            }
        }
    }
}

TEST_P(kernel_table_of, float_products_equal_scalar) {
    for (const weight_kind kind : {weight_kind::f32, weight_kind::f16, weight_kind::bf16}) {
        for (const int rows : {1, 16, 33, 64, 79, 90}) {
            const int cols = 1 + random_.below(300);
            const test_matrix m = make_float_matrix(kind, rows, cols, random_);
            for (const int count : row_counts) {
                buffer<float> x(attention_case::size(count, cols), 4);
                random_.fill(x);
                const std::size_t ldy = static_cast<std::size_t>(rows) + 1;
                buffer<float> a(ldy * static_cast<std::size_t>(count), 4), b(a.size(), 4);
                const int tiles = m.packed.tiles();
                scalar_.linear_float(m.packed, 0, tiles, x.data(), count, a.data(), ldy);
                table_->linear_float(m.packed, 0, tiles, x.data(), count, b.data(), ldy);
                ASSERT_TRUE(same_bits(a.data(), b.data(), a.size()))
                    << rows << "x" << cols << " by " << count;
            }
        }
    }
}

TEST_P(kernel_table_of, a_range_of_tiles_writes_only_its_rows) {
    const test_matrix m = make_quant_matrix(weight_kind::q4, scale_kind::f16, 90, 64, random_);
    buffer<float> x(3 * 64);
    random_.fill(x);
    const test_rows q(scalar_, x.data(), 3, 64);
    buffer<float> all(3 * 90), part(3 * 90);
    scalar_.linear_quant(m.packed, 0, 6, q.view(), 3, all.data(), 90);
    std::fill(part.begin(), part.end(), -5.0f);
    table_->linear_quant(m.packed, 1, 4, q.view(), 3, part.data(), 90);
    for (std::size_t i = 0; i < part.size(); ++i) {
        const std::size_t column = i % 90;
        ASSERT_EQ(part[i], column >= 16 && column < 64 ? all[i] : -5.0f) << i;
    }
}

TEST_P(kernel_table_of, quantised_rows_equal_scalar) {
    for (int count = 1; count < 9; ++count) {
        const int cols = 64 * count;
        buffer<float> x(attention_case::size(count, cols), 4);
        random_.fill(x);
        std::fill_n(x.data(), 64, 0.0f);
        const test_rows a(scalar_, x.data(), count, cols), b(*table_, x.data(), count, cols);
        ASSERT_TRUE(same_bits(a.q.data(), b.q.data(), a.q.size()));
        ASSERT_TRUE(same_bits(a.scales.data(), b.scales.data(), a.scales.size()));
        ASSERT_TRUE(same_bits(a.sums.data(), b.sums.data(), a.sums.size()));
    }
}

TEST_P(kernel_table_of, norms_and_element_wise_kernels_equal_scalar) {
    for (std::size_t n = 1; n <= 34; ++n) {
        for (const std::size_t offset : {std::size_t{0}, std::size_t{4}}) {
            buffer<float> x(n, offset), y(n, offset), a(n, offset), b(n, offset);
            random_.fill(x);
            random_.fill(y);
            const auto check = [&](const char* name) {
                ASSERT_TRUE(same_bits(a.data(), b.data(), n)) << name << " " << n;
            };
            for (const bool one_plus : {false, true}) {
                const int count = static_cast<int>(n);
                scalar_.rms_norm(x.data(), y.data(), a.data(), count, 1e-6f, one_plus);
                table_->rms_norm(x.data(), y.data(), b.data(), count, 1e-6f, one_plus);
                check("rms_norm");
            }
            scalar_.add(a.data(), y.data(), n);
            table_->add(b.data(), y.data(), n);
            check("add");
            scalar_.silu_mul(a.data(), y.data(), n);
            table_->silu_mul(b.data(), y.data(), n);
            check("silu_mul");
            std::copy(x.begin(), x.end(), a.begin());
            std::copy(x.begin(), x.end(), b.begin());
            scalar_.gelu_mul(a.data(), y.data(), n);
            table_->gelu_mul(b.data(), y.data(), n);
            check("gelu_mul");
            std::copy(x.begin(), x.end(), a.begin());
            std::copy(x.begin(), x.end(), b.begin());
            scalar_.swiglu_clamped(a.data(), y.data(), n, 1.702f, 0.75f);
            table_->swiglu_clamped(b.data(), y.data(), n, 1.702f, 0.75f);
            check("swiglu_clamped");
            scalar_.exp(x.data(), a.data(), n);
            table_->exp(x.data(), b.data(), n);
            check("exp");
            scalar_.finish_softmax({1.0f, 3.0f}, a.data(), static_cast<int>(n));
            table_->finish_softmax({1.0f, 3.0f}, b.data(), static_cast<int>(n));
            check("finish_softmax");
            softmax_state s{0.5f, 2.0f}, t{0.5f, 2.0f};
            scalar_.merge_softmax(s, a.data(), {0.75f, 1.25f}, y.data(), static_cast<int>(n));
            table_->merge_softmax(t, b.data(), {0.75f, 1.25f}, y.data(), static_cast<int>(n));
            check("merge_softmax");
            ASSERT_TRUE(same_bits(&s, &t, 1));
        }
    }
}

TEST_P(kernel_table_of, rope_equals_scalar) {
    for (int dim = 2; dim <= 96; dim += 2) {
        const auto n = static_cast<std::size_t>(dim);
        buffer<float> a(n, 4), b(n, 4), cosines(n / 2, 4), sines(n / 2, 4);
        random_.fill(a);
        random_.fill(cosines);
        random_.fill(sines);
        std::copy(a.begin(), a.end(), b.begin());
        scalar_.rope(a.data(), cosines.data(), sines.data(), dim);
        table_->rope(b.data(), cosines.data(), sines.data(), dim);
        ASSERT_TRUE(same_bits(a.data(), b.data(), n)) << dim;
    }
}

TEST_P(kernel_table_of, exp_equals_scalar_over_all_magnitudes) {
    std::vector<float> x;
    for (std::uint32_t bits = 0; bits < 0xff800000u; bits += 65521u) {
        const float value = std::bit_cast<float>(bits);
        if (!std::isnan(value)) {
            x.push_back(value);
        }
    }
    for (float near = -88.0f; near < 90.0f; near += 0.0031f) {
        x.push_back(near);
    }
    std::vector<float> a(x.size()), b(x.size());
    scalar_.exp(x.data(), a.data(), x.size());
    table_->exp(x.data(), b.data(), x.size());
    EXPECT_TRUE(same_bits(a.data(), b.data(), a.size()));
}

TEST_P(kernel_table_of, quantised_kv_equals_scalar) {
    for (const int bits : {4, 5, 6, 7, 8, 16}) {
        for (int round = 0; round < 80; ++round) {
            const auto rounding = round % 2 == 0 ? kv_rounding::mlx : kv_rounding::fitted;
            const int dim = bits == 16 ? 16 * (1 + random_.below(9)) : 64 * (1 + random_.below(9));
            const auto n = static_cast<std::size_t>(dim);
            buffer<float> x(n, 4);
            random_.fill(x);
            const float shift = static_cast<float>(round / 2 % 4) * 3e4f;
            for (float& value : x) {
                value += round < 8 ? shift * 4 : 0.0f;
            }
            buffer<std::byte> a(n * static_cast<std::size_t>(bits) / 8, 2), b(a.size(), 2);
            buffer<half> as(n / 64, 2), ab(n / 64, 2), bs(n / 64, 2), bb(n / 64, 2);
            scalar_.quantize_kv(x.data(), dim, bits, rounding, a.data(), as.data(), ab.data());
            table_->quantize_kv(x.data(), dim, bits, rounding, b.data(), bs.data(), bb.data());
            ASSERT_TRUE(same_bits(a.data(), b.data(), a.size())) << bits;
            ASSERT_TRUE(same_bits(as.data(), bs.data(), as.size())) << bits;
            ASSERT_TRUE(same_bits(ab.data(), bb.data(), ab.size())) << bits;
        }
    }
}

/// What a table makes of rows side by side, each with a feedback of its own.
struct shaped_rows {
    shaped_rows(std::deque<buffer<float>>& x, std::deque<buffer<float>>& feedback, int dim,
                int bits) {
        const auto n = static_cast<std::size_t>(dim);
        for (std::size_t i = 0; i < x.size(); ++i) {
            packed.emplace_back(n * static_cast<std::size_t>(bits) / 8, 2);
            scales.emplace_back(n / 64, 2);
            biases.emplace_back(n / 64, 2);
            keys.push_back({x[i].data(), feedback[i].data(), packed[i].data(), scales[i].data(),
                            biases[i].data()});
        }
    }
    std::deque<buffer<std::byte>> packed;
    std::deque<buffer<half>> scales, biases;
    std::vector<shaped_key> keys;
};

void expect_same_rows(shaped_rows& a, shaped_rows& b, const std::string& label) {
    for (std::size_t i = 0; i < a.keys.size(); ++i) {
        ASSERT_TRUE(same_bits(a.packed[i].data(), b.packed[i].data(), a.packed[i].size())) << label;
        ASSERT_TRUE(same_bits(a.scales[i].data(), b.scales[i].data(), a.scales[i].size())) << label;
        ASSERT_TRUE(same_bits(a.biases[i].data(), b.biases[i].data(), a.biases[i].size())) << label;
    }
}

TEST_P(kernel_table_of, shaped_kv_equals_scalar) {
    for (const int bits : {4, 5, 6, 7, 8}) {
        for (int round = 0; round < 24; ++round) {
            const int dim = round == 0 ? shaped_dim_max : 64 * (1 + random_.below(5));
            const auto n = static_cast<std::size_t>(dim);
            const int count = 1 + round % shaped_keys_max;
            std::deque<buffer<float>> x, feedback;
            for (int row = 0; row < count; ++row) {
                random_.fill(x.emplace_back(n, 4));
                for (float& value : x.back()) value += round == 1 ? 1e5f : 0.0f;
                auto& matrix = feedback.emplace_back(n * n, 4);
                random_.fill(matrix);
                for (std::size_t i = 0; i < n; ++i)
                    std::fill_n(matrix.begin() + static_cast<std::ptrdiff_t>(i * n), i + 1, 0.0f);
            }
            shaped_rows a(x, feedback, dim, bits), b(x, feedback, dim, bits);
            const std::string label = std::to_string(bits) + ' ' + std::to_string(round);
            scalar_.quantize_kv_shaped(a.keys.data(), count, dim, bits);
            table_->quantize_kv_shaped(b.keys.data(), count, dim, bits);
            expect_same_rows(a, b, label);
            // Without feedback it is the fitted rounding.
            for (auto& matrix : feedback) std::fill(matrix.begin(), matrix.end(), 0.0f);
            table_->quantize_kv_shaped(a.keys.data(), count, dim, bits);
            for (const shaped_key& key : b.keys)
                table_->quantize_kv(key.x, dim, bits, kv_rounding::fitted, key.row, key.scales,
                                    key.biases);
            expect_same_rows(a, b, label);
        }
    }
}

TEST_P(kernel_table_of, rotated_heads_equal_scalar) {
    for (int dim = 16; dim <= 1024; dim += 16) {
        const auto n = static_cast<std::size_t>(dim);
        buffer<float> a(n, 4), b(n, 4);
        random_.fill(a);
        std::copy(a.begin(), a.end(), b.begin());
        scalar_.rotate(a.data(), dim);
        table_->rotate(b.data(), dim);
        ASSERT_TRUE(same_bits(a.data(), b.data(), n)) << dim;
        scalar_.rotate_back(a.data(), dim);
        table_->rotate_back(b.data(), dim);
        ASSERT_TRUE(same_bits(a.data(), b.data(), n)) << dim;
    }
}

TEST_P(kernel_table_of, embedding_rows_equal_scalar) {
    for (const weight_kind kind : {weight_kind::f32, weight_kind::f16, weight_kind::bf16,
                                   weight_kind::q8, weight_kind::q4, weight_kind::mxfp4}) {
        const bool quant = kind == weight_kind::q8 || kind == weight_kind::q4;
        const test_matrix m = kind == weight_kind::mxfp4
                                  ? make_mxfp4_matrix(37, 192, random_, 0, 255)
                              : quant ? make_quant_matrix(kind, scale_kind::bf16, 37, 192, random_)
                                      : make_float_matrix(kind, 37, 192, random_);
        for (int row = 0; row < 37; ++row) {
            buffer<float> a(192), b(192);
            scalar_.embed_row(m.packed, row, a.data());
            table_->embed_row(m.packed, row, b.data());
            ASSERT_TRUE(same_bits(a.data(), b.data(), 192)) << row;
        }
    }
}

std::vector<attention_shape> attention_shapes() {
    std::vector<attention_shape> shapes;
    for (const bit_pair bits : known_bits()) {
        for (const int dim : {64, 128, 192, 256}) {
            for (const int tokens : {1, 15, 16, 17, 33, 64, 65, 130}) {
                shapes.push_back({1 + tokens % 14, tokens, dim, dim, bits, tokens % 2 == 1});
            }
        }
        shapes.push_back({5, 40, 576, 512, bits, false});
        shapes.push_back({40, 256, 64, 64, bits, true});
        shapes.push_back({40, 256, 128, 64, bits, false});
        if (bits.k != bits.v) continue;
        for (const int tokens : {1, 17, 64, 130}) {  // latent attention: values inside the keys
            const int count = tokens == 130 ? 40 : tokens == 64 ? 16 : 1 + tokens / 3;
            shapes.push_back({count, tokens, 576, 512, bits, tokens == 64, false, 576});
            shapes.push_back({count, tokens, 128, 64, bits, tokens == 64, false, 192});
            shapes.push_back({count, tokens, 64, 64, bits, tokens == 64, false, 128});
        }
    }
    for (const int dim : {16, 80, 96, 112}) {
        shapes.push_back({7, 37, dim, dim, 16, true});
    }
    return shapes;
}

TEST_P(kernel_table_of, attention_equals_scalar) {
    unsigned seed = 0;
    for (const attention_shape& shape : attention_shapes()) {
        const attention_case c(shape, ++seed);
        const auto a = c.run(scalar_, 0, shape.count), b = c.run(*table_, 0, shape.count);
        ASSERT_TRUE(a.inside_scratch && b.inside_scratch)
            << shape.bits << ", dim " << shape.k_dim << ", tokens " << shape.tokens;
        ASSERT_TRUE(same_bits(a.states.data(), b.states.data(), a.states.size()))
            << shape.bits << ", dim " << shape.k_dim << ", tokens " << shape.tokens;
        ASSERT_TRUE(std::isfinite(a.states[0].sum));
        ASSERT_TRUE(same_bits(a.out.data(), b.out.data(), a.out.size()))
            << shape.bits << ", dim " << shape.k_dim << ", tokens " << shape.tokens;
    }
}

// A tile of 64 tokens that all rows see whole is gone through without asking each row: one row's
// range begins or ends a token before, at and after the edge of a tile.
TEST_P(kernel_table_of, attention_up_to_a_tiles_edge_equals_scalar) {
    for (const int count : {1, 3, 25}) {
        attention_case c({count, 256, 64, 64, {8, 4}}, 11);
        const auto last = static_cast<std::size_t>(count) - 1;
        for (const int begin : {63, 64, 65}) {
            for (const int end : {127, 128, 129, 191, 192, 193}) {
                c.begin[last] = begin;
                c.end[last] = end;
                const auto a = c.run(scalar_, 0, count), b = c.run(*table_, 0, count);
                ASSERT_TRUE(same_bits(a.states.data(), b.states.data(), a.states.size()))
                    << count << " rows, " << begin << " to " << end;
                ASSERT_TRUE(same_bits(a.out.data(), b.out.data(), a.out.size()))
                    << count << " rows, " << begin << " to " << end;
            }
        }
    }
}

TEST_P(kernel_table_of, attention_of_a_row_does_not_depend_on_its_neighbours) {
    for (const bit_pair bits : known_bits()) {
        const attention_case c({29, 200, 64, 64, bits, true}, 5);
        const auto all = c.run(*table_, 0, 29);
        for (int r = 0; r < 29; ++r) {
            const auto alone = c.run(*table_, r, 1);
            ASSERT_TRUE(same_bits(all.out.data() + r * 64, alone.out.data(), 64)) << r;
            ASSERT_TRUE(same_bits(all.states.data() + r, alone.states.data(), 1)) << r;
        }
    }
}

TEST_P(kernel_table_of, attention_does_not_depend_on_the_frame_that_is_prefetched) {
    unsigned seed = 0;
    for (const attention_shape& shape : attention_shapes()) {
        const attention_case c(shape, ++seed);
        const auto alone = c.run(*table_, 0, shape.count);
        for (const int next : {1, shape.tokens / 2 + 1, shape.tokens}) {
            const auto asking = c.run(*table_, 0, shape.count, next);
            ASSERT_TRUE(same_bits(alone.out.data(), asking.out.data(), alone.out.size()))
                << shape.bits << ", dim " << shape.k_dim << ", next " << next;
        }
    }
}

TEST_P(kernel_table_of, products_of_a_row_do_not_depend_on_its_neighbours) {
    const test_matrix q4 = make_quant_matrix(weight_kind::q4, scale_kind::f16, 80, 256, random_);
    const test_matrix bf = make_float_matrix(weight_kind::bf16, 80, 256, random_);
    buffer<float> x(40 * 256), all(40 * 80), one(80), all_f(40 * 80);
    random_.fill(x);
    const test_rows rows(*table_, x.data(), 40, 256);
    table_->linear_quant(q4.packed, 0, 5, rows.view(), 40, all.data(), 80);
    table_->linear_float(bf.packed, 0, 5, x.data(), 40, all_f.data(), 80);
    for (std::size_t r = 0; r < 40; ++r) {
        const test_rows row(*table_, x.data() + r * 256, 1, 256);
        table_->linear_quant(q4.packed, 0, 5, row.view(), 1, one.data(), 80);
        ASSERT_TRUE(same_bits(all.data() + r * 80, one.data(), 80)) << r;
        table_->linear_float(bf.packed, 0, 5, x.data() + r * 256, 1, one.data(), 80);
        ASSERT_TRUE(same_bits(all_f.data() + r * 80, one.data(), 80)) << r;
    }
}

INSTANTIATE_TEST_SUITE_P(every_table, kernel_table_of, testing::Values("avx2", "avxvnni", "avx512"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace semantic::engine::kernel_tests
