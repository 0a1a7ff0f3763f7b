// SPDX-License-Identifier: Apache-2.0
// GGUF's blocks in packed form: the weights of the file, in as many bytes.

#include "engine/model/weights/gguf_packing.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "engine/kernels/block_forms.hpp"
#include "storage/files/safetensors.hpp"
#include "tests/engine/kernels/block_matrix.hpp"

namespace semantic::engine::kernel_tests {
namespace {

using storage::gguf_type;

const kernel_table& scalar() { return *find_kernels("scalar"); }

class packed_block_type : public testing::TestWithParam<block_type> {};

TEST_P(packed_block_type, holds_every_weight_bit_for_bit) {
    source random(5);
    for (const int rows : {1, 16, 37}) {
        const auto blocks = random_blocks(GetParam(), rows, 512, random, true);
        const test_matrix m = pack_block_matrix(GetParam(), rows, 512, blocks);
        std::vector<float> weights(blocks.size() / row_bytes_of(GetParam().type, 512) * 512);
        dequantize(GetParam().type, blocks, weights);
        std::vector<float> row(512);
        for (int r = 0; r < rows; ++r) {
            scalar().embed_row(m.packed, r, row.data());
            const float* right = weights.data() + static_cast<std::size_t>(r) * 512;
            for (std::size_t k = 0; k < 512; ++k)
                ASSERT_EQ(std::bit_cast<std::uint32_t>(row[k]),
                          std::bit_cast<std::uint32_t>(right[k]))
                    << GetParam().name << " row " << r << " input " << k;
        }
    }
}

TEST_P(packed_block_type, holds_the_reference_readers_weights) {
    const auto golden = storage::safetensors_file::open(SEMANTIC_SOURCE_DIR
                                                        "/tests/golden/gguf_blocks.safetensors");
    ASSERT_TRUE(golden) << golden.error().what;
    const std::string name = storage::find_block_size(GetParam().type)->name;
    const auto bytes = golden->view().tensors.at(name + ".blocks").bytes;
    const auto expected = golden->view().tensors.at(name + ".weights").bytes;
    const std::size_t row_bytes = row_bytes_of(GetParam().type, 256);
    const int rows = static_cast<int>(bytes.size() / row_bytes);
    ASSERT_GT(rows, 0);
    std::vector<std::byte> blocks(bytes.begin(),
                                  bytes.begin() + static_cast<long>(row_bytes) * rows);
    const test_matrix m = pack_block_matrix(GetParam(), rows, 256, blocks);
    std::vector<float> row(256), right(256);
    for (int r = 0; r < rows; ++r) {
        scalar().embed_row(m.packed, r, row.data());
        std::memcpy(right.data(), expected.data() + static_cast<std::size_t>(r) * 1024, 1024);
        for (std::size_t k = 0; k < 256; ++k) ASSERT_EQ(row[k], right[k]) << name << " row " << r;
    }
}

TEST_P(packed_block_type, takes_at_most_a_twentieth_more_than_the_file) {
    const packed_matrix m{*packed_kind(GetParam().type, 1024), scale_kind::f16, 64, 1024, nullptr};
    const auto file = static_cast<double>(64 * row_bytes_of(GetParam().type, 1024));
    EXPECT_LE(static_cast<double>(m.bytes()), 1.05 * file);
    EXPECT_GE(static_cast<double>(m.bytes()), file);
}

TEST_P(packed_block_type, packs_in_parts_as_at_once) {
    source random(6);
    const auto blocks = random_blocks(GetParam(), 37, 512, random, true);
    const test_matrix once = pack_block_matrix(GetParam(), 37, 512, blocks);
    buffer<std::byte> parts(once.packed.bytes());
    for (const int tile : {2, 0, 1})
        EXPECT_EQ(pack_blocks(once.packed,
                              {GetParam().type, blocks.data(), row_bytes_of(GetParam().type, 512)},
                              tile, tile + 1, parts.data()),
                  std::nullopt);
    EXPECT_TRUE(same_bits(once.data->data(), parts.data(), parts.size()));
}

TEST_P(packed_block_type, takes_rows_in_the_order_that_is_asked_for) {
    source random(7);
    const auto blocks = random_blocks(GetParam(), 40, 256, random, false);
    const test_matrix all = pack_block_matrix(GetParam(), 40, 256, blocks);
    std::vector<std::int32_t> row_of(20);
    for (std::size_t i = 0; i < 20; ++i) row_of[i] = static_cast<std::int32_t>((i * 7 + 3) % 40);
    packed_matrix some{all.packed.kind, scale_kind::f16, 20, 256, nullptr};
    buffer<std::byte> data(some.bytes());
    const block_source from{GetParam().type, blocks.data(), row_bytes_of(GetParam().type, 256),
                            row_of};
    ASSERT_EQ(pack_blocks(some, from, 0, 2, data.data()), std::nullopt);
    some.data = data.data();
    std::vector<float> a(256), b(256);
    for (int r = 0; r < 20; ++r) {
        scalar().embed_row(some, r, a.data());
        scalar().embed_row(all.packed, row_of[static_cast<std::size_t>(r)], b.data());
        ASSERT_TRUE(same_bits(a.data(), b.data(), 256)) << r;
    }
}

TEST_P(packed_block_type, a_scale_that_is_no_number_is_named) {
    source random(8);
    const storage::gguf_block_size& size = *storage::find_block_size(GetParam().type);
    const std::size_t row_bytes = row_bytes_of(GetParam().type, 512);
    const packed_matrix to{*packed_kind(GetParam().type, 512), scale_kind::f16, 20, 512, nullptr};
    buffer<std::byte> data(to.bytes());
    const bool has_halves = GetParam().halves[0] >= 0;
    for (const int at : {GetParam().halves[0], GetParam().halves[1]}) {
        if (has_halves && at < 0) continue;
        for (const half bits : {half{0x7c00}, half{0xfc00}, half{0x7e01}}) {
            auto blocks = random_blocks(GetParam(), 20, 512, random, true);
            std::byte* last = blocks.data() + 18 * row_bytes - size.bytes;  // of row 17
            if (has_halves) {
                std::memcpy(last + at, &bits, sizeof bits);
            } else {
                last[0] = std::byte{255};
            }
            const auto bad =
                pack_blocks(to, {GetParam().type, blocks.data(), row_bytes}, 0, 2, data.data());
            const int first = 512 - to.record_inputs();
            EXPECT_EQ(bad, "a scale that is not a number (row 17, inputs " + std::to_string(first) +
                               " to 511)");
            EXPECT_EQ(
                pack_blocks(to, {GetParam().type, blocks.data(), row_bytes}, 0, 1, data.data()),
                std::nullopt);
        }
    }
}

/// Each group's roundings: one for every part's scale and offset, one for the activations' scale;
/// a part's scale is exact.
TEST_P(packed_block_type, products_match_double_arithmetic) {
    source random(9);
    constexpr int rows = 21, cols = 512, count = 4;
    const auto blocks = random_blocks(GetParam(), rows, cols, random, false);
    const test_matrix m = pack_block_matrix(GetParam(), rows, cols, blocks);
    const block_decoder& decoder = *find_block_decoder(GetParam().type);
    const storage::gguf_block_size& size = *storage::find_block_size(GetParam().type);
    buffer<float> x(count * cols), y(count * rows);
    random.fill(x);
    const test_rows q(scalar(), x.data(), count, cols);
    scalar().linear_quant(m.packed, 0, 2, q.view(), count, y.data(), rows);
    const double roundings = cols / 64 * 9;
    int wrong = 0;  // products of weights that are a little off
    for (std::size_t n = 0; n < rows; ++n) {
        for (std::size_t i = 0; i < count; ++i) {
            double sum = 0, magnitude = 0, mutated = 0;
            decoded_block decoded;
            for (std::size_t k = 0; k < cols; ++k) {
                const std::size_t in_block = k % size.elements;
                if (in_block == 0)
                    decoder.decode(blocks.data() + (n * cols + k) / size.elements * size.bytes,
                                   decoded);
                const std::size_t group = in_block / static_cast<std::size_t>(decoder.group);
                const double product = static_cast<double>(decoded.scales[group]) *
                                       static_cast<double>(decoded.codes[in_block]);
                const auto offset = static_cast<double>(decoded.offsets[group]);
                const double activation = static_cast<double>(q.scales[(i * cols + k) / 64]) *
                                          static_cast<double>(q.q[i * cols + k]);
                sum += (product + offset) * activation;
                mutated += (product * 1.001 + offset) * activation;
                magnitude += (std::abs(product) + std::abs(offset)) * std::abs(activation);
            }
            const double bound = gamma(roundings) * magnitude;
            const auto got = static_cast<double>(y[i * rows + n]);
            EXPECT_LE(std::abs(got - sum), bound) << GetParam().name;
            wrong += std::abs(got - mutated) > bound ? 1 : 0;
        }
    }
    EXPECT_GT(wrong, count * rows / 4);
}

INSTANTIATE_TEST_SUITE_P(types, packed_block_type, testing::ValuesIn(block_types),
                         [](const auto& one) { return std::string(one.param.name); });

TEST(gguf_packing, widths_that_no_record_divides_and_floats_have_no_packed_kind) {
    for (const block_type& each : block_types) {
        const std::size_t elements = storage::find_block_size(each.type)->elements;
        EXPECT_FALSE(packed_kind(each.type, 32)) << each.name;
        EXPECT_FALSE(packed_kind(each.type, 65)) << each.name;
        EXPECT_EQ(packed_kind(each.type, 64).has_value(), elements == 32) << each.name;
        EXPECT_EQ(packed_kind(each.type, 576).has_value(), elements == 32) << each.name;
        EXPECT_TRUE(packed_kind(each.type, 256)) << each.name;
    }
    for (const gguf_type type : {gguf_type::f32, gguf_type::f16, gguf_type::bf16, gguf_type::iq2_s})
        EXPECT_FALSE(packed_kind(type, 256));
}

}  // namespace
}  // namespace semantic::engine::kernel_tests
