// SPDX-License-Identifier: Apache-2.0
// GGUF's packed types: every table gives the bits of the scalar table, whose products are those of
// the weights that the file's blocks mean.

#include <gtest/gtest.h>

#include "engine/kernels/block_forms.hpp"
#include "tests/engine/kernels/attention_case.hpp"
#include "tests/engine/kernels/block_matrix.hpp"
#include "tests/engine/kernels/table_under_test.hpp"

namespace semantic::engine::kernel_tests {
namespace {

class block_table_of : public testing::TestWithParam<const char*> {
  protected:
    void SetUp() override {
        table_ = table_under_test(GetParam());
        if (table_ == nullptr) {
            GTEST_SKIP() << "skipped: this CPU does not run " << GetParam();
        }
    }

    /// Compares y of both tables; between its rows lie three floats that nothing may touch.
    void expect_same_products(const test_matrix& m, const float* x, int count, const char* name) {
        const int rows = m.packed.rows, cols = m.packed.cols, tiles = m.packed.tiles();
        const test_rows q(scalar_, x, count, cols);
        const std::size_t ldy = static_cast<std::size_t>(rows) + 3;
        buffer<float> a(ldy * static_cast<std::size_t>(count), 4), b(a.size(), 4);
        scalar_.linear_quant(m.packed, 0, tiles, q.view(), count, a.data(), ldy);
        table_->linear_quant(m.packed, 0, tiles, q.view(), count, b.data(), ldy);
        ASSERT_TRUE(same_bits(a.data(), b.data(), a.size()))
            << name << " " << rows << "x" << cols << " by " << count;
    }

    const kernel_table& scalar_ = *find_kernels("scalar");
    const kernel_table* table_ = nullptr;
    source random_{31};
};

TEST_P(block_table_of, products_equal_scalar) {
    for (const block_type& type : block_types) {
        for (const int rows : {1, 3, 16, 17, 33, 100}) {
            const int cols = 256 * (1 + random_.below(2)) + (rows == 17 ? 9 * 256 : 0);
            const test_matrix m = make_block_matrix(type, rows, cols, random_, rows == 33);
            for (const int count : {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 16, 17, 131}) {
                if (count * rows * cols > 1'000'000) continue;
                buffer<float> x(attention_case::size(count, cols), 4);
                random_.fill(x);
                expect_same_products(m, x.data(), count, type.name);
            }
        }
    }
}

// A width that is no multiple of the groups that are unpacked at a time.
TEST_P(block_table_of, products_of_odd_widths_equal_scalar) {
    for (const block_type& type : block_types) {
        for (const int cols : {64, 192, 576, 704}) {
            if (!packed_kind(type.type, cols)) continue;
            const test_matrix m = make_block_matrix(type, 49, cols, random_);
            for (const int count : {1, 2, 7}) {
                buffer<float> x(attention_case::size(count, cols), 4);
                random_.fill(x);
                expect_same_products(m, x.data(), count, type.name);
            }
        }
    }
}

// Few rows keep what corrects 128 groups of 64 inputs: exactly as many, and some more.
TEST_P(block_table_of, products_in_several_passes_equal_scalar) {
    for (const block_type& type : block_types) {
        for (const int cols : {128 * 64, 132 * 64}) {
            const test_matrix m = make_block_matrix(type, 5, cols, random_);
            for (const int count : {1, 2, 8, 9, 16, 17}) {
                buffer<float> x(attention_case::size(count, cols));
                random_.fill(x);
                expect_same_products(m, x.data(), count, type.name);
            }
        }
    }
}

// Every integer at its largest and at its least: the sums that 16 bits hold come closest to
// overflow. All bits set is the largest code of every type but iq4's, whose levels ascend. Either
// end in turn: the least code with the largest scale.
TEST_P(block_table_of, largest_integers_do_not_overflow) {
    constexpr int either_end = -1;
    for (const block_type& type : block_types) {
        for (const int byte : {0x00, 0xff, 0x7f, 0x80, either_end}) {
            for (const float sign : {1.0f, -1.0f}) {
                source random(3);
                std::vector<std::byte> blocks = random_blocks(type, 40, 512, random, false);
                for (std::size_t i = 0; i < blocks.size(); ++i) {
                    const std::size_t in_block = i % storage::find_block_size(type.type)->bytes;
                    const bool is_half = [&] {
                        for (const int at : type.halves) {
                            const auto start = static_cast<std::size_t>(at);
                            if (at >= 0 && in_block / 2 == start / 2) return true;
                        }
                        return type.halves[0] < 0 && in_block == 0;
                    }();
                    if (is_half) continue;
                    const int value = byte != either_end ? byte : random.below(2) * 0xff;
                    blocks[i] = static_cast<std::byte>(value);
                }
                const test_matrix m = pack_block_matrix(type, 40, 512, blocks);
                buffer<float> x(17 * 512);
                std::fill(x.begin(), x.end(), sign);
                for (const int count : {1, 2, 7, 17})
                    expect_same_products(m, x.data(), count, type.name);
            }
        }
    }
}

TEST_P(block_table_of, a_range_of_tiles_writes_only_its_rows) {
    for (const block_type& type : block_types) {
        constexpr int cols = 5 * 256;  // more than are unpacked at a time
        const test_matrix m = make_block_matrix(type, 90, cols, random_);
        for (const int count : {1, 3, 7, 17}) {
            buffer<float> x(attention_case::size(count, cols));
            random_.fill(x);
            const test_rows q(scalar_, x.data(), count, cols);
            buffer<float> all(attention_case::size(count, 90)), part(all.size());
            scalar_.linear_quant(m.packed, 0, 6, q.view(), count, all.data(), 90);
            std::fill(part.begin(), part.end(), -5.0f);
            table_->linear_quant(m.packed, 1, 4, q.view(), count, part.data(), 90);
            for (std::size_t i = 0; i < part.size(); ++i) {
                const std::size_t column = i % 90;
                ASSERT_EQ(part[i], column >= 16 && column < 64 ? all[i] : -5.0f)
                    << type.name << " " << i;
            }
        }
    }
}

TEST_P(block_table_of, products_of_a_row_do_not_depend_on_its_neighbours) {
    for (const block_type& type : block_types) {
        const test_matrix m = make_block_matrix(type, 80, 512, random_);
        buffer<float> x(140 * 512), all(140 * 80), one(80);
        random_.fill(x);
        const test_rows rows(*table_, x.data(), 140, 512);
        table_->linear_quant(m.packed, 0, 5, rows.view(), 140, all.data(), 80);
        for (std::size_t r = 0; r < 140; r += 3) {
            const test_rows row(*table_, x.data() + r * 512, 1, 512);
            table_->linear_quant(m.packed, 0, 5, row.view(), 1, one.data(), 80);
            ASSERT_TRUE(same_bits(all.data() + r * 80, one.data(), 80)) << type.name << " " << r;
        }
    }
}

TEST_P(block_table_of, sums_of_parts_equal_scalar) {
    for (const int cols : {64, 128, 192, 4096}) {
        buffer<std::int8_t> q(static_cast<std::size_t>(cols), 3);
        for (std::int8_t& value : q) value = static_cast<std::int8_t>(random_.below(255) - 127);
        if (cols == 128) std::fill(q.begin(), q.end(), std::int8_t{-127});
        buffer<std::int16_t> a(q.size() / 16), b(q.size() / 16);
        scalar_.sum_parts(q.data(), a.size(), a.data());
        table_->sum_parts(q.data(), b.size(), b.data());
        ASSERT_TRUE(same_bits(a.data(), b.data(), a.size())) << cols;
    }
}

TEST_P(block_table_of, embedding_rows_equal_scalar) {
    for (const block_type& type : block_types) {
        const test_matrix m = make_block_matrix(type, 37, 512, random_, true);
        std::vector<float> a(512), b(512);
        for (int row = 0; row < 37; ++row) {
            scalar_.embed_row(m.packed, row, a.data());
            table_->embed_row(m.packed, row, b.data());
            ASSERT_TRUE(same_bits(a.data(), b.data(), a.size())) << type.name << " " << row;
        }
    }
}

INSTANTIATE_TEST_SUITE_P(every_table, block_table_of, testing::Values("avx2", "avxvnni", "avx512"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace semantic::engine::kernel_tests
