// SPDX-License-Identifier: Apache-2.0
// A recurrent state's file and a manifest's list of states: their bytes, and what a reader refuses.

#include "storage/disk/state_file.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "storage/disk/manifest.hpp"
#include "storage/files/checksum.hpp"
#include "storage/types/hex.hpp"
#include "tests/support/temp_dir.hpp"

namespace semantic::storage {
namespace {

constexpr std::size_t length_bytes = 8;

kv_layout layout_of(std::size_t state_bytes) { return {{{1, 16, 16, 0}}, {4, 16}, 8, state_bytes}; }

std::string without_blanks(std::string_view text) {
    std::string left;
    for (const char each : text)
        if (each != ' ' && each != '\n') left += each;
    return left;
}

class state_file_test : public testing::Test {
  protected:
    state_file_test() {
        for (std::size_t i = 0; i < 16; ++i) fingerprint.bytes[i] = static_cast<std::uint8_t>(i);
        state = *recurrent_state::make(pool);
        for (std::size_t i = 0; i < 8; ++i) state->bytes()[i] = std::byte(i);
    }
    block_identity identity() const { return {fingerprint, "salt", {}, tokens}; }
    std::string contents() const { return read_whole(posix_file_system(), path, 1 << 20).value(); }
    std::string published() const {
        const std::string source = std::string(SEMANTIC_SOURCE_DIR) + "/storage/FORMAT.md";
        return read_whole(posix_file_system(), source, 1 << 20).value();
    }
    errc refusal(const block_identity& expected, block_pool& target) const {
        const auto read = read_state_file(posix_file_system(), path, expected, target);
        EXPECT_FALSE(read);
        if (read) return errc::bad_value;
        EXPECT_TRUE(read.error().what.starts_with(path)) << read.error().what;
        return read.error().code;
    }

    const semantic::tests::temp_dir directory;
    const std::string path = directory / "state";
    const kv_layout layout = layout_of(8);
    block_pool pool{layout, layout.frame_bytes() * 10};
    block_hash fingerprint;
    const std::vector<token_id> tokens{1, 2, 3};
    std::shared_ptr<recurrent_state> state;
};

// The file of FORMAT.md; a change here is a change of format.
TEST_F(state_file_test, equals_the_published_example) {
    const auto written = write_state_file(posix_file_system(), path, identity(), state->bytes());
    ASSERT_TRUE(written);
    const std::string bytes = contents();
    EXPECT_EQ(*written, bytes.size());
    EXPECT_LE(bytes.size(), state_file_bytes_max(3, 8));
    const std::string header = bytes.substr(length_bytes, bytes.size() - length_bytes - 8);
    EXPECT_NE(without_blanks(published()).find(without_blanks(header)), std::string::npos)
        << "FORMAT.md shows another than\n"
        << header << "\nof " << header.size() << " bytes";
    EXPECT_EQ(bytes.substr(bytes.size() - 8), std::string("\0\1\2\3\4\5\6\7", 8));
    EXPECT_EQ(static_cast<unsigned char>(bytes[0]) + 256 * static_cast<unsigned char>(bytes[1]),
              static_cast<int>(header.size()));
}

TEST_F(state_file_test, is_named_after_all_tokens_before_it_and_apart_from_blocks) {
    const block_hash name = state_name(identity());
    EXPECT_NE(name, block_name(identity()));
    EXPECT_NE(published().find("`" + name.hex() + "`"), std::string::npos)
        << "FORMAT.md lacks " << name.hex();
    EXPECT_EQ(block_path(name, kv_part::state),
              "blocks/" + name.hex().substr(0, 2) + "/" + name.hex() + ".state.safetensors");
    EXPECT_EQ(*parse_block_file_name(name.hex() + ".state.safetensors"),
              std::pair(name, kv_part::state));
    EXPECT_FALSE(parse_block_file_name("a2.state.safetensors"));
}

TEST_F(state_file_test, comes_back_byte_for_byte) {
    ASSERT_TRUE(write_state_file(posix_file_system(), path, identity(), state->bytes()));
    const auto read = read_state_file(posix_file_system(), path, identity(), pool);
    ASSERT_TRUE(read) << read.error().what;
    EXPECT_TRUE(std::ranges::equal(read->state->bytes(), state->bytes()));
    EXPECT_EQ(read->bytes, contents().size());
}

TEST_F(state_file_test, is_refused_where_it_is_not_the_one_asked_for) {
    ASSERT_TRUE(write_state_file(posix_file_system(), path, identity(), state->bytes()));
    block_identity other = identity();
    other.fingerprint.bytes[3] = 9;
    EXPECT_EQ(refusal(other, pool), errc::incompatible);
    const std::vector<token_id> others{1, 2, 4};
    other = identity();
    other.tokens = others;
    EXPECT_EQ(refusal(other, pool), errc::corrupt);
    other = identity();
    other.tenant_salt = "other";
    EXPECT_EQ(refusal(other, pool), errc::corrupt);
    for (const std::size_t bytes : {7u, 9u}) {
        const kv_layout longer = layout_of(bytes);
        block_pool target(longer, longer.frame_bytes() * 10);
        EXPECT_EQ(refusal(identity(), target), errc::corrupt) << bytes;
        EXPECT_EQ(target.state_count(), 0u);
    }
    block_pool full(layout, layout.frame_bytes() * 4);
    const auto taken = full.allocate(4);
    EXPECT_EQ(refusal(identity(), full), errc::pool_exhausted);
    full.release(*taken);
    std::filesystem::remove(path);
    EXPECT_EQ(refusal(identity(), pool), errc::not_found);
}

TEST_F(state_file_test, is_refused_where_it_is_cut_off_or_longer) {
    ASSERT_TRUE(write_state_file(posix_file_system(), path, identity(), state->bytes()));
    const std::string whole = contents();
    for (std::size_t kept = 0; kept <= whole.size() + 1; ++kept) {
        if (kept == whole.size()) continue;
        std::string changed = whole;
        changed.resize(kept, 'x');
        std::ofstream(path, std::ios::binary) << changed;
        EXPECT_EQ(refusal(identity(), pool), errc::corrupt) << kept;
    }
}

// --- a manifest's list ---

manifest example() {
    manifest agent;
    agent.agent = "sess_1";
    agent.tokens = {1, 2, 3, 4, 5};
    agent.text = "abcde";
    agent.token_ends = {1, 2, 3, 4, 5};
    agent.blocks = {{checksum128("x"), 5}};
    agent.notes = {{"day", "Friday"}};
    block_hash last;
    last.bytes[15] = 1;
    agent.states = {{3, true, *block_hash::from_hex("d43f13aa3bd64bd26efe3b87422ada0b")},
                    {5, false, last}};
    return agent;
}

TEST_F(state_file_test, a_manifests_list_equals_the_published_example) {
    const std::string bytes = encode_manifest(example())->bytes;
    const std::string key("\6\0\0\0states\60\0\0\0", 14);
    const std::size_t at = bytes.find(key);
    ASSERT_NE(at, std::string::npos);
    std::string note;
    for (const char each : std::string_view(bytes).substr(at + key.size(), 48))
        append_hex(note, each);
    EXPECT_NE(without_blanks(published()).find(note), std::string::npos)
        << "FORMAT.md shows another than\n"
        << note;
}

TEST(manifest_states, come_back_and_are_no_note) {
    const auto decoded = decode_manifest(encode_manifest(example())->bytes);
    ASSERT_TRUE(decoded) << decoded.error().what;
    EXPECT_EQ(decoded->agent, example());
    std::vector<std::string> paths;
    for (const agent_part_file& each : files_of(decoded->agent)) paths.push_back(each.path);
    EXPECT_EQ(paths.size(), 4u);
    EXPECT_EQ(paths[2], "blocks/d4/d43f13aa3bd64bd26efe3b87422ada0b.state.safetensors");
}

TEST(manifest_states, an_update_may_have_none) {
    const auto first = encode_manifest(example()).value();
    manifest next = example();
    next.states.clear();
    const auto update = encode_update(next, {1, 5, 0}, first.seal).value();
    EXPECT_EQ(decode_manifest(first.bytes + update.bytes)->agent, next);
}

TEST(manifest_states, out_of_their_range_are_refused_on_both_sides) {
    const auto refuses = [](auto change) {
        manifest agent = example();
        change(agent);
        const auto encoded = encode_manifest(agent);
        EXPECT_FALSE(encoded);
        return !encoded && encoded.error().code == errc::bad_value;
    };
    EXPECT_TRUE(refuses([](manifest& m) { m.states[1].tokens = 6; }));
    EXPECT_TRUE(refuses([](manifest& m) { m.states[1].tokens = 3; }));
    EXPECT_TRUE(refuses([](manifest& m) { m.states[0].tokens = 0; }));
    EXPECT_TRUE(refuses([](manifest& m) { m.notes[states_note] = "mine"; }));
    manifest most = example();
    most.tokens.assign(kept_states_max + 1, 1);
    most.token_ends.assign(kept_states_max + 1, 0);
    most.blocks = {{checksum128("x"), static_cast<int>(kept_states_max) + 1}};
    most.states.clear();
    for (std::uint32_t i = 1; i <= kept_states_max; ++i) most.states.push_back({i, false, {}});
    const auto encoded = encode_manifest(most);
    ASSERT_TRUE(encoded);
    EXPECT_EQ(decode_manifest(encoded->bytes)->agent, most);
    most.states.push_back({kept_states_max + 1, false, {}});
    EXPECT_EQ(encode_manifest(most).error().code, errc::bad_value);
}

}  // namespace
}  // namespace semantic::storage
