// SPDX-License-Identifier: Apache-2.0
// The threaded front: same bits as the kernels, whatever the shape; packing; the BLAS path.

#include "engine/kernels/gemm.hpp"

#include <cblas.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <span>

#include "tests/engine/kernels/attention_case.hpp"
#include "tests/engine/kernels/block_matrix.hpp"
#include "tests/engine/kernels/support.hpp"

namespace semantic::engine::kernel_tests {
namespace {

const kernel_table& best() { return *find_kernels("auto"); }

const task_runner& tasks() {
    static const task_runner three(3);  // more than most machines' arenas lend a test
    return three;
}

TEST(gemm, several_matrices_at_once_equal_each_alone) {
    source random(31);
    const int cols = 320;
    const test_matrix a = make_quant_matrix(weight_kind::q4, scale_kind::f16, 700, cols, random);
    const test_matrix b = make_quant_matrix(weight_kind::q8, scale_kind::bf16, 33, cols, random);
    const test_matrix c = make_float_matrix(weight_kind::bf16, 90, cols, random);
    for (const int count : {1, 7, 128, 129, 300}) {
        buffer<float> x(attention_case::size(count, cols));
        random.fill(x);
        buffer<float> scratch(linear_scratch_floats(count, cols));
        std::vector<float> together(attention_case::size(count, 823)), alone(together.size());
        const auto run = [&](std::vector<float>& y, bool split) {
            const std::size_t ldy = 823;
            const linear_job jobs[] = {{&a.packed, y.data(), ldy},
                                       {&b.packed, y.data() + 700, ldy},
                                       {&c.packed, y.data() + 733, ldy}};
            if (!split) {
                linear(best(), tasks(), jobs, x.data(), count, cols, scratch.data());
                return;
            }
            for (const linear_job& job : jobs) {
                for (int r = 0; r < count; ++r) {
                    const auto row = static_cast<std::size_t>(r);
                    linear(best(), tasks(), *job.weights, x.data() + row * cols, 1,
                           job.y + row * ldy, ldy, scratch.data());
                }
            }
        };
        run(together, false);
        run(alone, true);
        EXPECT_TRUE(same_bits(together.data(), alone.data(), together.size())) << count;
    }
}

TEST(gemm, rows_from_a_given_one_on_equal_those_of_all_and_the_others_stay) {
    source random(36);
    const int cols = 320, count = 9;
    const test_matrix a = make_quant_matrix(weight_kind::q4, scale_kind::f16, 50, cols, random);
    const test_matrix b = make_float_matrix(weight_kind::bf16, 33, cols, random);
    buffer<float> x(attention_case::size(count, cols));
    random.fill(x);
    buffer<float> scratch(linear_scratch_floats(count, cols));
    const auto run = [&](int first) {
        std::vector<float> y(attention_case::size(count, 83), -7.0f);
        const linear_job jobs[] = {{&a.packed, y.data(), 83}, {&b.packed, y.data() + 50, 83}};
        linear_from(best(), tasks(), jobs, x.data(), first, count, cols, scratch.data());
        return y;
    };
    const std::vector<float> all = run(0);
    for (const int first : {1, 5, count}) {
        const std::vector<float> some = run(first);
        const std::size_t at = attention_case::size(first, 83);
        EXPECT_EQ(std::ranges::count(std::span(some).first(at), -7.0f),
                  static_cast<std::ptrdiff_t>(at));
        EXPECT_TRUE(same_bits(some.data() + at, all.data() + at, all.size() - at)) << first;
    }
}

TEST(gemm, rows_from_a_given_one_on_are_of_at_most_four_matrices) {
    source random(37);
    const int cols = 64;
    const test_matrix a = make_quant_matrix(weight_kind::q4, scale_kind::f16, 16, cols, random);
    buffer<float> x(cols), scratch(linear_scratch_floats(1, cols));
    random.fill(x);
    std::vector<float> y(5 * 16);
    std::vector<linear_job> jobs;
    for (std::size_t i = 0; i < 5; ++i) jobs.push_back({&a.packed, y.data() + 16 * i, 16});
    const auto run = [&](std::size_t count) {
        linear_from(best(), tasks(), std::span(jobs).first(count), x.data(), 0, 1, cols,
                    scratch.data());
    };
    run(4);
    EXPECT_TRUE(same_bits(y.data(), y.data() + 48, 16));
    EXPECT_DEATH(run(5), "assertion failed");
}

TEST(gemm, results_do_not_depend_on_the_number_of_threads) {
    source random(32);
    const test_matrix m = make_quant_matrix(weight_kind::q4, scale_kind::f16, 2048, 512, random);
    buffer<float> x(200 * 512), scratch(linear_scratch_floats(200, 512));
    random.fill(x);
    std::vector<float> one(200 * 2048), many(one.size());
    linear(best(), tasks(), m.packed, x.data(), 200, many.data(), 2048, scratch.data());
    linear(best(), task_runner(1), m.packed, x.data(), 200, one.data(), 2048, scratch.data());
    EXPECT_TRUE(same_bits(one.data(), many.data(), one.size()));
}

TEST(gemm, blas_rows_depend_neither_on_their_place_nor_on_their_number) {
    source random(33);
    const test_matrix m = make_float_matrix(weight_kind::bf16, 205, 300, random);
    buffer<float> x(40 * 300);
    random.fill(x);
    std::vector<float> all(40 * 205), one(205);
    linear_blas(tasks(), m.packed, x.data(), 40, all.data(), 205);
    for (std::size_t r = 0; r < 40; ++r) {
        linear_blas(tasks(), m.packed, x.data() + r * 300, 1, one.data(), 205);
        ASSERT_TRUE(same_bits(one.data(), all.data() + r * 205, 205)) << r;
    }
}

TEST(gemm, portable_kernels_use_blas_for_floats_and_scalar_for_integers) {
    source random(34);
    const test_matrix f = make_float_matrix(weight_kind::f16, 40, 128, random);
    const test_matrix q = make_quant_matrix(weight_kind::q4, scale_kind::f16, 40, 128, random);
    buffer<float> x(5 * 128), scratch(linear_scratch_floats(5, 128));
    random.fill(x);
    std::vector<float> got(5 * 80), floats(5 * 80), integers(5 * 80);
    const linear_job jobs[] = {{&f.packed, got.data(), 80}, {&q.packed, got.data() + 40, 80}};
    linear(*find_kernels("portable"), tasks(), jobs, x.data(), 5, 128, scratch.data());
    linear_blas(tasks(), f.packed, x.data(), 5, floats.data(), 80);
    linear(*find_kernels("scalar"), tasks(), q.packed, x.data(), 5, integers.data(), 80,
           scratch.data());
    for (std::size_t i = 0; i < got.size(); ++i) {
        ASSERT_EQ(got[i], i % 80 < 40 ? floats[i] : integers[i - 40]) << i;
    }
}

TEST(gemm, float_products_match_blas) {
    source random(35);
    const int rows = 150, cols = 400, count = 20;
    const test_matrix m = make_float_matrix(weight_kind::f32, rows, cols, random);
    std::vector<float> w(m.values.begin(), m.values.end());
    buffer<float> x(20 * 400), scratch(linear_scratch_floats(count, cols));
    random.fill(x);
    std::vector<float> got(20 * 150), wanted(got.size()), magnitude(got.size());
    linear(best(), tasks(), m.packed, x.data(), count, got.data(), rows, scratch.data());
    const auto blas = [&](const float* a, const float* b, float* c) {
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, count, rows, cols, 1.0f, a, cols, b,
                    cols, 0.0f, c, rows);
    };
    blas(x.data(), w.data(), wanted.data());
    for (float& value : w) {
        value = std::abs(value);
    }
    for (float& value : x) {
        value = std::abs(value);
    }
    blas(x.data(), w.data(), magnitude.data());
    for (std::size_t i = 0; i < got.size(); ++i) {
        // Both sides round at most once or twice a term, whatever their order.
        ASSERT_NEAR(got[i], wanted[i], gamma(3.0 * cols) * static_cast<double>(magnitude[i])) << i;
    }
}

TEST(gemm, packing_in_parts_equals_packing_at_once) {
    source random(36);
    std::vector<std::byte> plain(90 * 70 * 2);
    for (auto& byte : plain) {
        byte = static_cast<std::byte>(random.below(256));
    }
    const packed_matrix to{weight_kind::f16, scale_kind::f16, 90, 70, nullptr};
    buffer<std::byte> once(to.bytes()), parts(to.bytes());
    pack_float(to, plain.data(), 0, to.tiles(), once.data());
    for (int tile = to.tiles() - 1; tile >= 0; --tile) {
        pack_float(to, plain.data(), tile, tile + 1, parts.data());
    }
    EXPECT_TRUE(same_bits(once.data(), parts.data(), once.size()));
    EXPECT_EQ(to.bytes(), 6u * 16 * 70 * 2);
}

TEST(gemm, packing_mxfp4_in_parts_equals_packing_at_once) {
    source random(37);
    std::vector<std::byte> blocks(37 * 6 * 16), scales(37 * 6);
    for (auto& byte : blocks) {
        byte = static_cast<std::byte>(random.below(256));
    }
    for (auto& byte : scales) {
        byte = static_cast<std::byte>(random.below(255));
    }
    const packed_matrix to{weight_kind::mxfp4, scale_kind::f16, 37, 192, nullptr};
    buffer<std::byte> once(to.bytes()), parts(to.bytes());
    pack_mxfp4(to, {blocks.data(), scales.data()}, 0, 3, once.data());
    for (int tile = 2; tile >= 0; --tile) {
        pack_mxfp4(to, {blocks.data(), scales.data()}, tile, tile + 1, parts.data());
    }
    EXPECT_TRUE(same_bits(once.data(), parts.data(), once.size()));
    EXPECT_EQ(to.bytes(), 3u * 3 * 544);
}

TEST(gemm, mxfp4_codes_are_read_low_nibble_first) {
    // One row: element 1 is 3 (code 5), element 34 of the second block is -0.5 (code 9).
    std::vector<std::byte> blocks(32), scales(2);
    blocks[0] = std::byte{0x50};
    blocks[17] = std::byte{0x09};
    scales[0] = std::byte{128};
    scales[1] = std::byte{125};
    packed_matrix w{weight_kind::mxfp4, scale_kind::f16, 1, 64, nullptr};
    buffer<std::byte> data(w.bytes());
    pack_mxfp4(w, {blocks.data(), scales.data()}, 0, 1, data.data());
    w.data = data.data();
    float row[64];
    best().embed_row(w, 0, row);
    for (int k = 0; k < 64; ++k) {
        EXPECT_EQ(row[k], k == 1 ? 6.0f : k == 34 ? -0.125f : 0.0f) << k;
    }
}

TEST(gemm, mxfp4_rows_can_be_taken_from_two_interleaved_matrices) {
    source random(38);
    const test_matrix m = make_mxfp4_matrix(21, 128, random, 117, 125, 2);
    for (int r = 0; r < 21; ++r) {
        float row[128];
        best().embed_row(m.packed, r, row);
        for (std::size_t k = 0; k < 128; ++k) {
            ASSERT_EQ(static_cast<double>(row[k]), m.values[static_cast<std::size_t>(r) * 128 + k]);
        }
    }
}

TEST(gemm, mxfp4_on_all_threads_equals_each_row_alone) {
    source random(39);
    const test_matrix m = make_mxfp4_matrix(300, 192, random);
    buffer<float> x(140 * 192), scratch(linear_scratch_floats(140, 192));
    random.fill(x);
    std::vector<float> together(140 * 300), alone(together.size());
    linear(best(), tasks(), m.packed, x.data(), 140, together.data(), 300, scratch.data());
    for (std::size_t r = 0; r < 140; ++r) {
        linear(best(), tasks(), m.packed, x.data() + r * 192, 1, alone.data() + r * 300, 300,
               scratch.data());
    }
    EXPECT_TRUE(same_bits(together.data(), alone.data(), alone.size()));
}

TEST(gemm, gguf_types_side_by_side_on_all_threads_equal_each_row_alone) {
    source random(9);
    std::vector<test_matrix> matrices;
    for (const block_type& type : block_types) {
        matrices.push_back(make_block_matrix(type, 100, 512, random));
    }
    matrices.push_back(make_quant_matrix(weight_kind::q4, scale_kind::f16, 100, 512, random));
    buffer<float> x(140 * 512), scratch(linear_scratch_floats(140, 512));
    random.fill(x);
    std::vector<std::vector<float>> together(matrices.size(), std::vector<float>(140 * 100));
    std::vector<linear_job> jobs;
    for (std::size_t i = 0; i < matrices.size(); ++i) {
        jobs.push_back({&matrices[i].packed, together[i].data(), 100});
    }
    linear(best(), tasks(), jobs, x.data(), 140, 512, scratch.data());
    std::vector<float> alone(100);
    for (std::size_t i = 0; i < matrices.size(); ++i) {
        for (std::size_t row = 0; row < 140; row += 23) {
            linear(best(), tasks(), matrices[i].packed, x.data() + row * 512, 1, alone.data(), 100,
                   scratch.data());
            ASSERT_TRUE(same_bits(alone.data(), together[i].data() + row * 100, 100))
                << i << " " << row;
        }
    }
}

TEST(gemm, records_have_the_documented_sizes) {
    const packed_matrix mxfp4{weight_kind::mxfp4, scale_kind::f16, 17, 128, nullptr};
    EXPECT_EQ(mxfp4.record_bytes(), 544u);
    EXPECT_EQ(mxfp4.bytes(), 2u * 1088);
    const packed_matrix q4{weight_kind::q4, scale_kind::bf16, 16, 128, nullptr};
    const packed_matrix q8{weight_kind::q8, scale_kind::f32, 17, 64, nullptr};
    EXPECT_EQ(q4.record_bytes(), 576u);
    EXPECT_EQ(q4.bytes(), 1152u);
    EXPECT_EQ(q8.record_bytes(), 1152u);
    EXPECT_EQ(q8.bytes(), 2304u);
}

TEST(dispatch, unknown_names_find_nothing_and_auto_is_the_first) {
    EXPECT_EQ(find_kernels("sse9"), nullptr);
    EXPECT_EQ(find_kernels("auto"), find_kernels(available_kernels().front()));
    EXPECT_NE(find_kernels("scalar"), nullptr);
    EXPECT_TRUE(find_kernels("portable")->float_by_blas);
}

}  // namespace
}  // namespace semantic::engine::kernel_tests
