// SPDX-License-Identifier: Apache-2.0
#include "engine/model/packed/packed_file.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "engine/model/packed/packed_index.hpp"
#include "engine/model/weights/weight_files.hpp"
#include "storage/files/file.hpp"
#include "tests/engine/model/packed/packed_model.hpp"
#include "tests/support/temp_dir.hpp"

namespace semantic::engine {
namespace {

constexpr std::uint64_t pieces = 3 * packed_sample_pieces + 1;
constexpr std::uint64_t arena_bytes = (pieces - 1) * packed_piece_bytes + 5;

class packed_file_test : public testing::Test {
  protected:
    packed_file_test() {
        contents_.bytes = arena_bytes;
        contents_.weights.bytes[0] = 7;
        bytes_.resize(arena_bytes);
        std::uint32_t seed = 1;
        for (std::byte& each : bytes_) {
            seed = seed * 1664525u + 1013904223u;
            each = static_cast<std::byte>(seed >> 24);
        }
        packed_writer writer(std::move(*storage::posix_file_system().create(path_)));
        // In portions that fit neither pieces nor writes.
        const std::span<const std::byte> all(bytes_);
        for (std::size_t at = 0; at < all.size(); at += 3'333'333)
            EXPECT_TRUE(
                writer.write(all.subspan(at, std::min<std::size_t>(3'333'333, all.size() - at))));
        EXPECT_TRUE(writer.finish(contents_));
    }

    const tests::temp_dir dir_;
    const std::string path_ = dir_ / "a.packed";
    packed_contents contents_;
    std::vector<std::byte> bytes_;
};

TEST_F(packed_file_test, gives_back_what_was_written) {
    const auto file = packed_file::open(path_, contents_);
    ASSERT_TRUE(file) << file.error().what;
    EXPECT_TRUE(std::ranges::equal(file->bytes(), bytes_));
    EXPECT_TRUE(file->check_all());
    std::vector<std::byte> copy(bytes_.size());
    EXPECT_TRUE(file->read_all(copy.data()));
    EXPECT_TRUE(copy == bytes_);
}

TEST_F(packed_file_test, starts_with_consecutive_phases_find_a_flipped_bit_in_any_piece) {
    for (const std::uint64_t piece : {std::uint64_t{0}, std::uint64_t{100}, pieces - 1}) {
        tests::flip_bit(path_, piece * packed_piece_bytes);
        const auto file = packed_file::open(path_, contents_);
        ASSERT_TRUE(file);
        EXPECT_FALSE(file->check_all());
        std::vector<std::byte> copy(bytes_.size());
        EXPECT_FALSE(file->read_all(copy.data()));
        int found = 0;
        for (std::uint64_t phase = 0; phase < 4; ++phase)
            found += file->check_sample(phase) ? 0 : 1;
        EXPECT_EQ(found, 1);
        tests::flip_bit(path_, piece * packed_piece_bytes);
    }
}

TEST_F(packed_file_test, is_of_its_weights_plan_and_length_only) {
    packed_contents other = contents_;
    other.weights.bytes[3] = 1;
    EXPECT_FALSE(packed_file::open(path_, other));
    other = contents_;
    other.plan.bytes[3] = 1;
    EXPECT_FALSE(packed_file::open(path_, other));
    other = contents_;
    other.bytes -= 1;
    EXPECT_FALSE(packed_file::open(path_, other));
    EXPECT_FALSE(packed_file::open(dir_ / "none.packed", contents_));
}

TEST(packed_index, comes_back_as_it_was_and_empty_where_it_is_damaged) {
    packed_index index;
    index.keep({"/m/a.gguf", {1, 2, 3, 4, 5}, {}, {}});
    index.use("x.packed", {6, 7, 8, 9, 10});
    const std::string text = index.to_text();
    EXPECT_EQ(packed_index::parse(text), index);
    for (std::size_t at = 0; at + 1 < text.size(); ++at) {
        std::string other = text;
        other[at] = static_cast<char>(other[at] ^ 1);
        EXPECT_EQ(packed_index::parse(other), packed_index()) << other;
    }
    EXPECT_EQ(packed_index::parse(""), packed_index());
}

TEST(packed_index, forgets_the_oldest_beyond_its_bounds) {
    packed_index index;
    for (std::size_t i = 0; i <= packed_index::sources_max; ++i)
        index.keep({std::to_string(i), {}, {}, {}});
    EXPECT_EQ(index.sources.size(), packed_index::sources_max);
    EXPECT_EQ(index.find_source("0"), nullptr);
    EXPECT_NE(index.find_source("1"), nullptr);
    for (std::size_t i = 0; i <= packed_index::packed_max; ++i) index.use(std::to_string(i), {});
    EXPECT_EQ(index.packed.size(), packed_index::packed_max);
    EXPECT_EQ(index.find_packed("0"), nullptr);
    EXPECT_NE(index.find_packed("1"), nullptr);
}

TEST(read_pace, holds_hashing_within_its_lead_of_packing) {
    read_pace pace;
    EXPECT_TRUE(pace.wait_for(read_pace::lead_bytes));
    std::atomic<bool> went_on{false};
    std::thread hasher([&] {
        EXPECT_TRUE(pace.wait_for(read_pace::lead_bytes + 10));
        went_on = true;
    });
    pace.advance(9);
    EXPECT_FALSE(went_on);
    pace.advance(1);
    hasher.join();
    pace.finish();
    EXPECT_TRUE(pace.wait_for(std::uint64_t{1} << 60));
    pace.stop();
    EXPECT_FALSE(pace.wait_for(0));
}

}  // namespace
}  // namespace semantic::engine
