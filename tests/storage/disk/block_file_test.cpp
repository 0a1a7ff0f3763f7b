// SPDX-License-Identifier: Apache-2.0
#include "storage/disk/block_file.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "storage/files/safetensors.hpp"
#include "tests/storage/agents/store_fixture.hpp"
#include "tests/support/temp_dir.hpp"

namespace semantic::storage {
namespace {

using namespace semantic::storage::tests;
using semantic::tests::temp_dir;

std::string read_text(const std::string& path) {
    return read_whole(posix_file_system(), path, 1 << 24).value();
}

void write_text(const std::string& path, const std::string& text) {
    auto file = posix_file_system().create(path);
    ASSERT_TRUE(file);
    ASSERT_TRUE((*file)->write(std::as_bytes(std::span(text))));
}

/// A block of `count` tokens written to `path`.
struct written_block {
    written_block(const std::string& file_path, int count, int bits = 4)
        : written_block(file_path, count, small_layout(bits)) {}
    written_block(const std::string& file_path, int count, const kv_layout& rows,
                  kv_part file_part = kv_part::full)
        : path(file_path),
          part(file_part),
          layout(rows),
          pool(layout, layout.frame_bytes() * 24),
          tokens(some_tokens(count)),
          state(make_state(pool, "a", tokens)),
          identity{fingerprint_of("model"), "salt", {}, tokens} {
        written = write_block_file(posix_file_system(), path, identity, block_format(layout, part),
                                   *state.blocks[0].at(part));
    }
    result<block_read> read(const block_identity& expected) {
        return read_block_file(posix_file_system(), path, expected, block_format(layout, part),
                               pool);
    }
    /// Whether what was read is what was written.
    bool is_back(const block_read& read) const {
        kv_block_parts block = state.blocks[0];
        block.at(part) = read.block;
        return holds(layout, {block}, tokens, static_cast<int>(tokens.size()));
    }

    std::string path;
    kv_part part;
    kv_layout layout;
    block_pool pool;
    std::vector<token_id> tokens;
    agent_state state;
    block_identity identity;
    result<std::uint64_t> written = std::uint64_t{0};
};

// The vectors of FORMAT.md; a change here is a change of format.
TEST(block_name, equals_the_published_vectors) {
    const std::vector<token_id> first = {1, 2, 3};
    const std::vector<token_id> second = {4, -1};
    block_hash fingerprint;
    for (std::size_t i = 0; i < 16; ++i) fingerprint.bytes[i] = static_cast<std::uint8_t>(i);
    const block_hash a = block_name({fingerprint, "salt", {}, first});
    const block_hash b = block_name({fingerprint, "salt", a, second});
    EXPECT_EQ(block_name({{}, "", {}, {}}).hex(), "2b0f3fef7d7810ca54fb936bac3de906");
    EXPECT_EQ(a.hex(), "a2bf97dfea9839b0945b60a874a56a80");
    EXPECT_EQ(b.hex(), "183dc8221b68bbedca451685923f72be");
    const std::string format = read_text(std::string(SEMANTIC_SOURCE_DIR) + "/storage/FORMAT.md");
    for (const block_hash& each : {a, b, block_name({{}, "", {}, {}})})
        EXPECT_NE(format.find(each.hex()), std::string::npos) << "FORMAT.md lacks " << each.hex();
    const std::string file = a.hex() + ".safetensors", sibling = a.hex() + ".sliding.safetensors";
    EXPECT_EQ(block_path(a, kv_part::full), "blocks/a2/" + file);
    EXPECT_EQ(block_path(a, kv_part::sliding), "blocks/a2/" + sibling);
    EXPECT_EQ(*parse_block_file_name(file), std::pair(a, kv_part::full));
    EXPECT_EQ(*parse_block_file_name(sibling), std::pair(a, kv_part::sliding));
    for (const std::string& other : {"x" + file, file + "x", "sliding." + file, a.hex(),
                                     a.hex() + ".full.safetensors", std::string(".safetensors")})
        EXPECT_FALSE(parse_block_file_name(other)) << other;
}

TEST(block_name, differs_with_every_field) {
    const std::vector<token_id> tokens = {1, 2};
    const std::vector<token_id> others = {1, 3};
    const block_hash zero;
    const block_hash one = checksum128("one");
    const block_hash base = block_name({zero, "salt", zero, tokens});
    EXPECT_NE(base, block_name({one, "salt", zero, tokens}));
    EXPECT_NE(base, block_name({zero, "tlas", zero, tokens}));
    EXPECT_NE(base, block_name({zero, "salt", one, tokens}));
    EXPECT_NE(base, block_name({zero, "salt", zero, others}));
    // Bytes that move from one field to the next change the name, because lengths are part of it.
    EXPECT_NE(block_name({zero, std::string(16, '\0'), zero, {}}),
              block_name({zero, "", zero, std::vector<token_id>(4, 0)}));
}

TEST(block_names, chain_over_whole_blocks_and_a_tail) {
    const auto tokens = some_tokens(19);
    const auto names = block_names({}, "salt", tokens, 8);
    ASSERT_EQ(names.size(), 3u);
    EXPECT_EQ(names[2], block_name({{}, "salt", names[1], std::span(tokens).subspan(16)}));
    const auto longer = block_names({}, "salt", some_tokens(24), 8);
    EXPECT_EQ(longer[1], names[1]);
    EXPECT_NE(longer[2], names[2]);
    EXPECT_TRUE(block_names({}, "salt", {}, 8).empty());
}

TEST(block_file, full_and_partial_blocks_come_back_byte_for_byte) {
    const temp_dir directory;
    std::vector<kv_layout> layouts;
    for (int bits : {4, 8, 16}) {
        layouts.push_back(small_layout(bits));
        layouts.push_back(latent_layout(bits));
        layouts.push_back(sliding_layout(bits));
    }
    layouts.push_back(wide_layout());
    layouts.push_back(frame_sharing_layout());
    for (const kv_layout& layout : layouts)
        for (kv_part part : kv_parts)
            for (int count = 1; count <= block_tokens; ++count) {
                if (layout.layers(part).empty()) continue;
                written_block block(directory / "block", count, layout, part);
                ASSERT_TRUE(block.written) << block.written.error().what;
                EXPECT_EQ(*block.written, read_text(block.path).size());
                const auto read = block.read(block.identity);
                ASSERT_TRUE(read) << read.error().what;
                EXPECT_EQ(read->block->part(), part);
                EXPECT_TRUE(block.is_back(*read));
                EXPECT_EQ(read->bytes, *block.written);
                EXPECT_LE(read->bytes,
                          block_format(layout, part).file_bytes_max(block.tokens.size()));
                const bool is_cut = layout.group_start(count) < count;
                ASSERT_EQ(read->block->wide() != nullptr, is_cut);
                EXPECT_EQ(read->block->wide_end(), is_cut ? count : 0);
                if (!is_cut) continue;
                for (const int layer : layout.layers(part))
                    EXPECT_TRUE(wide_holds(layout, layer, read->block->wide()->rows(layer),
                                           block.tokens, count));
            }
}

// An import has no f16 rows, and a sequence that continues computes the group again.
TEST(block_file, a_block_that_ends_inside_a_group_may_lack_its_rows) {
    const temp_dir directory;
    const kv_layout layout = wide_layout();
    block_pool pool(layout, layout.frame_bytes() * 12);
    const auto tokens = some_tokens(5);
    const auto block = kv_block::make(pool, kv_part::full).value();
    const block_identity identity{fingerprint_of("model"), "salt", {}, tokens};
    const block_format format(layout, kv_part::full);
    const std::string path = directory / "block";
    ASSERT_TRUE(write_block_file(posix_file_system(), path, identity, format, *block));
    const auto read = read_block_file(posix_file_system(), path, identity, format, pool);
    ASSERT_TRUE(read) << read.error().what;
    EXPECT_EQ(read->block->wide(), nullptr);
}

TEST(block_file, the_f16_rows_of_a_group_have_names_shapes_and_checksums) {
    const temp_dir directory;
    const kv_layout layout = wide_layout();
    written_block block(directory / "block", 5, layout);
    const auto file = safetensors_file::open(block.path);
    ASSERT_TRUE(file) << file.error().what;
    const auto& tensors = file->view().tensors;
    EXPECT_EQ(tensors.size(), 8u);  // of the full layer
    EXPECT_EQ(tensors.at("layer_1_k_wide").type, dtype::f16);
    EXPECT_EQ(tensors.at("layer_1_k_wide").shape, (std::vector<std::int64_t>{1, 2, 1, 16}));
    EXPECT_EQ(tensors.at("layer_1_v_wide").shape, (std::vector<std::int64_t>{1, 2, 1, 32}));
    std::string damaged = read_text(block.path);
    damaged.back() ^= 1;
    write_text(block.path, damaged);
    const auto read = block.read(block.identity);
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().code, errc::corrupt);
    EXPECT_NE(read.error().what.find("layer_1_v_wide"), std::string::npos) << read.error().what;
    EXPECT_EQ(block.pool.free_count() + block.pool.held_count(), block.pool.frame_count());
}

TEST(block_file, a_sibling_holds_the_sliding_layers_and_no_other) {
    const temp_dir directory;
    written_block block(directory / "block", 5, sliding_layout(), kv_part::sliding);
    const auto file = safetensors_file::open(block.path);
    ASSERT_TRUE(file) << file.error().what;
    const auto& tensors = file->view().tensors;
    EXPECT_EQ(tensors.size(), 12u);
    EXPECT_TRUE(tensors.contains("layer_0_k_weights") && tensors.contains("layer_2_v_biases"));
    EXPECT_EQ(file->view().metadata.at("layers"), "sliding");
    block.part = kv_part::full;
    EXPECT_EQ(block.read(block.identity).error().code, errc::corrupt);
}

// A model may have no layer that sees everything; its blocks are named and checked as any.
TEST(block_file, of_no_layers_says_which_tokens_it_stands_for) {
    const temp_dir directory;
    const kv_layout layout({{1, 16, 16, 11}}, {4, 16}, block_tokens);
    block_pool pool(layout, layout.frame_bytes() * 4);
    const auto tokens = some_tokens(5);
    const agent_state state = make_state(pool, "a", tokens);
    const block_identity identity{fingerprint_of("model"), "salt", {}, tokens};
    const std::string path = directory / "block";
    const block_format format(layout, kv_part::full);
    ASSERT_TRUE(
        write_block_file(posix_file_system(), path, identity, format, *state.blocks[0].full));
    EXPECT_TRUE(read_block_file(posix_file_system(), path, identity, format, pool));
    block_identity other = identity;
    other.tokens = identity.tokens.first(4);
    EXPECT_FALSE(read_block_file(posix_file_system(), path, other, format, pool));
}

TEST(block_file, any_safetensors_reader_finds_the_documented_names_and_shapes) {
    const temp_dir directory;
    const written_block block(directory / "block", 5);
    const auto file = safetensors_file::open(block.path);
    ASSERT_TRUE(file) << file.error().what;
    const auto& tensors = file->view().tensors;
    EXPECT_EQ(tensors.size(), 12u);
    const auto& weights = tensors.at("layer_1_v_weights");
    EXPECT_EQ(weights.type, dtype::u32);
    EXPECT_EQ(weights.shape, (std::vector<std::int64_t>{1, 2, 5, 4}));
    EXPECT_EQ(tensors.at("layer_1_v_scales").shape, (std::vector<std::int64_t>{1, 2, 5, 2}));
    EXPECT_EQ(tensors.at("layer_0_k_biases").type, dtype::f16);
    const auto& metadata = file->view().metadata;
    EXPECT_EQ(metadata.at("token_count"), "5");
    EXPECT_EQ(metadata.at("hash"), block_name(block.identity).hex());

    const written_block wide(directory / "wide", 5, 16);
    const auto plain = safetensors_file::open(wide.path);
    ASSERT_TRUE(plain);
    EXPECT_EQ(plain->view().tensors.at("layer_1_v").shape,
              (std::vector<std::int64_t>{1, 2, 5, 32}));
}

/// The header of a file in the container's own words, with tensors and metadata in order.
std::string header_of(const safetensors_view& view) {
    std::vector<tensor_to_write> tensors;
    for (const auto& [name, tensor] : view.tensors)
        tensors.push_back({name, tensor.type, tensor.shape, tensor.bytes});
    std::ranges::sort(tensors, {}, [](const tensor_to_write& each) { return each.bytes.data(); });
    return safetensors_header(tensors, view.metadata);
}

TEST(block_file, headers_are_what_any_writer_would_write) {
    const temp_dir directory;
    for (const kv_layout& layout :
         {small_layout(), small_layout(16), latent_layout(), wide_layout(),
          kv_layout(std::vector<kv_layer>(12, kv_layer{1, 16, 16, 0}), {4, 16}, 8),
          frame_sharing_layout()})
        for (const int count : {1, 7, layout.block_tokens()}) {
            const written_block block(directory / "block", count, layout);
            const auto file = safetensors_file::open(block.path);
            ASSERT_TRUE(file) << file.error().what;
            const std::string header = header_of(file->view());
            EXPECT_EQ(read_text(block.path).substr(0, header.size()), header);
        }
}

TEST(block_file, headers_in_other_words_are_understood) {
    const temp_dir directory;
    for (const int count : {3, 8}) {
        written_block block(directory / "block", count);
        const std::string whole = read_text(block.path);
        const auto bytes = std::as_bytes(std::span(whole));
        const auto view = safetensors_view::parse(bytes);
        ASSERT_TRUE(view) << view.error().what;
        // More metadata; and tensors in another order, so that a layer's do not lie side by side.
        auto metadata = view->metadata;
        metadata["written by"] = "somebody else";
        std::vector<tensor_to_write> tensors;
        for (const auto& [name, tensor] : view->tensors)
            tensors.push_back({name, tensor.type, tensor.shape, tensor.bytes});
        std::ranges::reverse(tensors);
        std::string other = safetensors_header(tensors, metadata);
        for (const tensor_to_write& each : tensors)
            other.append(reinterpret_cast<const char*>(each.bytes.data()), each.bytes.size());
        write_text(block.path, other);
        const auto read = block.read(block.identity);
        ASSERT_TRUE(read) << read.error().what;
        EXPECT_TRUE(block.is_back(*read));
        write_text(block.path, whole + " ");
        EXPECT_EQ(block.read(block.identity).error().code, errc::corrupt);
    }
}

TEST(block_file, values_inside_keys_have_no_tensors) {
    const temp_dir directory;
    const written_block block(directory / "block", 5, latent_layout());
    const auto file = safetensors_file::open(block.path);
    ASSERT_TRUE(file) << file.error().what;
    const auto& tensors = file->view().tensors;
    EXPECT_EQ(tensors.size(), 6u);
    EXPECT_EQ(tensors.at("layer_1_k_weights").shape, (std::vector<std::int64_t>{1, 1, 5, 12}));
    EXPECT_EQ(tensors.at("layer_1_k_scales").shape, (std::vector<std::int64_t>{1, 1, 5, 3}));
    EXPECT_FALSE(tensors.contains("layer_1_v_weights"));
}

TEST(block_file, of_something_else_is_refused) {
    const temp_dir directory;
    written_block block(directory / "block", 8);
    block_identity other = block.identity;
    other.fingerprint = fingerprint_of("another model");
    EXPECT_EQ(block.read(other).error().code, errc::incompatible);

    other = block.identity;
    other.tenant_salt = "another tenant";
    EXPECT_EQ(block.read(other).error().code, errc::corrupt);

    other = block.identity;
    other.parent = checksum128("another parent");
    EXPECT_EQ(block.read(other).error().code, errc::corrupt);

    auto tokens = block.tokens;
    tokens[3] ^= 1;
    other = block.identity;
    other.tokens = tokens;
    EXPECT_EQ(block.read(other).error().code, errc::corrupt);
    other.tokens = std::span(block.tokens).first(7);
    EXPECT_EQ(block.read(other).error().code, errc::corrupt);
}

TEST(block_file, of_another_geometry_is_refused) {
    const temp_dir directory;
    const written_block block(directory / "block", 8);
    const kv_layout wider({{1, 16, 16, 0}, {2, 32, 32, 0}}, {4, 16}, block_tokens);
    const kv_layout deeper({{1, 16, 16, 0}, {2, 16, 32, 0}, {1, 16, 16, 0}}, {4, 16}, block_tokens);
    for (const kv_layout& layout : {wider, deeper}) {
        block_pool pool(layout, layout.frame_bytes() * 8);
        const auto read = read_block_file(posix_file_system(), block.path, block.identity,
                                          block_format(layout, kv_part::full), pool);
        ASSERT_FALSE(read);
        EXPECT_EQ(read.error().code, errc::corrupt);
        EXPECT_EQ(pool.held_count(), 0u);
    }
}

TEST(block_file, of_a_later_format_is_incompatible) {
    const temp_dir directory;
    written_block block(directory / "block", 8);
    std::string text = read_text(block.path);
    const std::string field = "\"format_version\":\"2\"";
    text.replace(text.find(field), field.size(), "\"format_version\":\"3\"");
    write_text(block.path, text);
    EXPECT_EQ(block.read(block.identity).error().code, errc::incompatible);
}

TEST(block_file, a_full_pool_is_reported_as_such) {
    const temp_dir directory;
    written_block block(directory / "block", 8);
    const auto held = block.pool.allocate(block.pool.free_count());
    EXPECT_EQ(block.read(block.identity).error().code, errc::pool_exhausted);
    block.pool.release(*held);
}

// Goal: no damage yields wrong bytes. Method: every byte of the file in turn with one bit flipped,
// and every truncation; what is still accepted (a flip in the header's padding) must hold the right
// bytes.
TEST(block_file, no_flip_and_no_truncation_yields_wrong_bytes) {
    const temp_dir directory;
    for (const auto& [count, part] : {std::pair(3, kv_part::full), std::pair(8, kv_part::full),
                                      std::pair(3, kv_part::sliding)}) {
        const kv_layout layout = part == kv_part::full ? small_layout() : sliding_layout();
        written_block block(directory / "block", count, layout, part);
        const std::string whole = read_text(block.path);
        const std::size_t held = block.pool.held_count();
        int accepted = 0;
        for (std::size_t at = 0; at < whole.size(); ++at) {
            std::string damaged = whole;
            damaged[at] ^= static_cast<char>(1 << (at % 8));
            write_text(block.path, damaged);
            const auto read = block.read(block.identity);
            if (!read) {
                EXPECT_TRUE(read.error().code == errc::corrupt ||
                            read.error().code == errc::incompatible);
                EXPECT_NE(read.error().what.find(block.path), std::string::npos);
            } else {
                ++accepted;
                ASSERT_TRUE(block.is_back(*read)) << at;
            }
        }
        EXPECT_LT(accepted, 8);
        for (std::size_t kept = 0; kept < whole.size(); kept += 5) {
            write_text(block.path, whole.substr(0, kept));
            EXPECT_EQ(block.read(block.identity).error().code, errc::corrupt);
        }
        EXPECT_EQ(block.pool.held_count(), held);
    }
}

}  // namespace
}  // namespace semantic::storage
