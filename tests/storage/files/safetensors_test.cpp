// SPDX-License-Identifier: Apache-2.0
#include "storage/files/safetensors.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <random>

#include "tests/support/temp_dir.hpp"

namespace semantic::storage {
namespace {

/// A file by hand: `header` after its length, then `data_bytes` bytes that count up.
std::string file_of(const std::string& header, std::size_t data_bytes) {
    std::string file;
    for (int i = 0; i < 8; ++i) file += static_cast<char>(header.size() >> (8 * i) & 0xff);
    file += header;
    for (std::size_t i = 0; i < data_bytes; ++i) file += static_cast<char>(i);
    return file;
}

result<safetensors_view> parse(const std::string& file) {
    return safetensors_view::parse(std::as_bytes(std::span(file)));
}

/// Expects `file` to be refused as corrupt with a sentence that has `part` in it.
void expect_corrupt(const std::string& file, const std::string& part) {
    const auto view = parse(file);
    ASSERT_FALSE(view) << "accepted; should name: " << part;
    EXPECT_EQ(view.error().code, errc::corrupt);
    EXPECT_NE(view.error().what.find(part), std::string::npos) << view.error().what;
}

std::string one_tensor(const std::string& fields) { return "{\"a\":{" + fields + "}}"; }

TEST(safetensors_view, reads_shapes_bytes_and_metadata) {
    const std::string file = file_of(
        R"({"__metadata__":{"k":"v"},"b":{"dtype":"I16","shape":[2,1],"data_offsets":[4,8]},)"
        R"("a":{"dtype":"F32","shape":[],"data_offsets":[0,4]}}   )",
        8);
    const auto view = parse(file);
    ASSERT_TRUE(view) << view.error().what;
    EXPECT_EQ(view->metadata.at("k"), "v");
    EXPECT_EQ(view->tensors.size(), 2u);
    EXPECT_EQ(view->tensors.at("b").type, dtype::i16);
    EXPECT_EQ(view->tensors.at("b").shape, (std::vector<std::int64_t>{2, 1}));
    EXPECT_EQ(view->tensors.at("b").bytes[0], std::byte{4});
    EXPECT_EQ(view->tensors.at("a").bytes.size(), 4u);
}

TEST(safetensors_view, a_tensor_without_elements_is_allowed) {
    const auto view =
        parse(file_of(one_tensor(R"("dtype":"F32","shape":[0,7],"data_offsets":[0,0])"), 0));
    ASSERT_TRUE(view) << view.error().what;
    EXPECT_TRUE(view->tensors.at("a").bytes.empty());
}

TEST(safetensors_view, truncated_header_is_corrupt) {
    const std::string whole =
        file_of(one_tensor(R"("dtype":"U8","shape":[4],"data_offsets":[0,4])"), 4);
    for (std::size_t kept = 0; kept < whole.size(); ++kept)
        expect_corrupt(whole.substr(0, kept), "");
    expect_corrupt(whole.substr(0, 7), "the file has 7 bytes");
    expect_corrupt(whole.substr(0, 20), "incomplete download?");
}

TEST(safetensors_view, header_longer_than_the_file_is_corrupt) {
    std::string file = file_of("{}", 0);
    file[0] = 3;
    expect_corrupt(file, "the header says 3 bytes, the file has 2");
    std::memset(file.data(), 0xff, 8);
    expect_corrupt(file, "18446744073709551615");
}

TEST(safetensors_view, header_that_is_not_a_json_object_is_corrupt) {
    for (const char* header : {"", "[]", "x", "{", "{}x", "{\"a\":}", "{'a':1}", " {}", "{,}",
                               "{\"\xff\":{}}", "{\"a\":{\"a\":{\"a\":"})
        expect_corrupt(file_of(header, 0), "");
    expect_corrupt(file_of("{\"a\":" + std::string(40, '[') + std::string(40, ']') + "}", 0), "");
    expect_corrupt(file_of("{\"a\":1}", 0), "not an object");
}

TEST(safetensors_view, the_same_name_twice_is_corrupt) {
    const std::string entry = R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]})";
    expect_corrupt(file_of("{" + entry + "," + entry + "}", 1), "\"a\" stands twice");
    expect_corrupt(file_of(one_tensor(R"("dtype":"U8","dtype":"U8")"), 0), "twice");
}

TEST(safetensors_view, missing_or_ill_typed_fields_are_corrupt) {
    expect_corrupt(file_of(one_tensor(R"("shape":[1],"data_offsets":[0,1])"), 1), "no dtype");
    expect_corrupt(file_of(one_tensor(R"("dtype":"U8","data_offsets":[0,1])"), 1), "no shape");
    expect_corrupt(file_of(one_tensor(R"("dtype":"U8","shape":[1])"), 1), "data_offsets");
    expect_corrupt(file_of(one_tensor(R"("dtype":"F7","shape":[1],"data_offsets":[0,1])"), 1),
                   "unknown dtype \"F7\"");
    expect_corrupt(file_of(one_tensor(R"("dtype":"U8","shape":[-1],"data_offsets":[0,1])"), 1),
                   "shape entry");
    expect_corrupt(file_of(one_tensor(R"("dtype":"U8","shape":[1.0],"data_offsets":[0,1])"), 1),
                   "shape entry");
    expect_corrupt(file_of(one_tensor(R"("dtype":"U8","shape":[1],"data_offsets":[0])"), 1),
                   "pair");
    expect_corrupt(file_of(one_tensor(R"("dtype":"U8","shape":[1],"data_offsets":[1,0])"), 1),
                   "range");
    expect_corrupt(file_of(R"({"__metadata__":{"k":1}})", 0), "not a string");
    expect_corrupt(file_of(R"({"__metadata__":[]})", 0), "not an object");
}

TEST(safetensors_view, products_that_overflow_are_corrupt) {
    const std::string huge = "\"shape\":[4294967296,4294967296,16],\"data_offsets\":[0,0]";
    expect_corrupt(file_of(one_tensor("\"dtype\":\"U8\"," + huge), 0), "overflows");
    expect_corrupt(
        file_of(one_tensor(R"("dtype":"F64","shape":[2305843009213693952],"data_offsets":[0,0])"),
                0),
        "overflows");
    expect_corrupt(
        file_of(one_tensor(R"("dtype":"U8","shape":[18446744073709551615],"data_offsets":[0,0])"),
                0),
        "shape entry");
}

TEST(safetensors_view, bytes_outside_the_file_are_corrupt) {
    expect_corrupt(file_of(one_tensor(R"("dtype":"U8","shape":[5],"data_offsets":[0,5])"), 4),
                   "it ends at data byte 5, the file has 4");
    expect_corrupt(file_of(one_tensor(R"("dtype":"U8","shape":[3],"data_offsets":[0,4])"), 4),
                   "its shape needs 3 bytes, data_offsets give 4");
}

TEST(safetensors_view, overlaps_gaps_and_rests_are_corrupt) {
    const auto pair = [](const std::string& first, const std::string& second) {
        return R"({"a":{"dtype":"U8","shape":[2],"data_offsets":)" + first +
               R"(},"b":{"dtype":"U8","shape":[2],"data_offsets":)" + second + "}}";
    };
    EXPECT_TRUE(parse(file_of(pair("[2,4]", "[0,2]"), 4)));
    expect_corrupt(file_of(pair("[0,2]", "[1,3]"), 3), "overlaps");
    expect_corrupt(file_of(pair("[0,2]", "[0,2]"), 2), "overlaps");
    expect_corrupt(file_of(pair("[0,2]", "[3,5]"), 5), "nothing describes");
    expect_corrupt(file_of(pair("[0,2]", "[2,4]"), 5), "cover 4 bytes, the file has 5");
}

/// A file whose every read sees the next of its versions, the last one again and again.
class changing_file final : public readable_file {
  public:
    explicit changing_file(std::vector<std::string> versions) : versions_(std::move(versions)) {}
    result<std::uint64_t> size() override { return versions_.front().size(); }
    result<void> read_at(std::uint64_t offset, std::span<std::byte> target) override {
        const std::string& now = versions_[std::min(reads_++, versions_.size() - 1)];
        if (offset + target.size() > now.size())
            return failure{errc::corrupt, "it ends before that"};
        std::memcpy(target.data(), now.data() + offset, target.size());
        return {};
    }

  private:
    std::vector<std::string> versions_;
    std::size_t reads_ = 0;
};

TEST(safetensors_index, a_header_whose_second_read_differs_never_ends_the_process) {
    const std::string fields = R"("dtype":"U8","shape":[40],"data_offsets":[0,40])";
    const std::string file = file_of(one_tensor(fields), 40);
    for (const int more : {-1, 1, 8, 39, 40, 41, 1000}) {
        std::string other = file;
        const auto length = static_cast<std::uint64_t>(one_tensor(fields).size()) +
                            static_cast<std::uint64_t>(more);
        std::memcpy(other.data(), &length, sizeof length);
        changing_file grown({file, other});
        EXPECT_TRUE(safetensors_index::read(grown, file.size())) << more;
        changing_file shrunk({other, file});
        const auto index = safetensors_index::read(shrunk, file.size());
        ASSERT_FALSE(index) << more;
        EXPECT_EQ(index.error().code, errc::corrupt) << more;
    }
}

TEST(safetensors_index, one_byte_too_few_of_a_header_is_corrupt) {
    const std::string header =
        file_of(one_tensor(R"("dtype":"U8","shape":[0],"data_offsets":[0,0])"), 0);
    const auto bytes = std::as_bytes(std::span(header));
    EXPECT_TRUE(safetensors_index::parse(bytes, header.size()));
    const auto index = safetensors_index::parse(bytes.first(bytes.size() - 1), header.size());
    ASSERT_FALSE(index);
    EXPECT_EQ(index.error().code, errc::corrupt);
}

TEST(safetensors_header, is_read_back_as_written) {
    const std::string first = "abcdefgh";
    const std::string second = "xy";
    const std::vector<tensor_to_write> tensors = {
        {"weights \"q\"", dtype::f32, {1, 2}, std::as_bytes(std::span(first))},
        {"z", dtype::bf16, {1}, std::as_bytes(std::span(second))},
    };
    const std::string header = safetensors_header(tensors, {{"key\n", "value \u00e9"}});
    EXPECT_EQ(header.size() % 8, 0u);
    const std::string file = header + first + second;
    const auto view = parse(file);
    ASSERT_TRUE(view) << view.error().what;
    EXPECT_EQ(view->metadata.at("key\n"), "value \u00e9");
    const tensor_view& tensor = view->tensors.at("weights \"q\"");
    EXPECT_EQ(tensor.type, dtype::f32);
    EXPECT_EQ(tensor.shape, (std::vector<std::int64_t>{1, 2}));
    EXPECT_EQ(std::memcmp(tensor.bytes.data(), "abcdefgh", 8), 0);
    EXPECT_EQ(std::memcmp(view->tensors.at("z").bytes.data(), "xy", 2), 0);
}

TEST(safetensors_header, of_nothing_is_an_empty_object) {
    EXPECT_TRUE(parse(safetensors_header({}, {})));
}

// Goal: no input crashes the reader or makes it hand out a span outside the file. Method: thousands
// of fixed random damages.
TEST(safetensors_view, no_damage_crashes_the_reader) {
    const std::string whole = file_of(
        R"({"__metadata__":{"k":"v"},"b":{"dtype":"I16","shape":[2,1],"data_offsets":[4,8]},)"
        R"("a":{"dtype":"F32","shape":[],"data_offsets":[0,4]}})",
        8);
    ASSERT_TRUE(parse(whole));
    std::mt19937 random(7);
    for (int round = 0; round < 20000; ++round) {
        std::string damaged = whole;
        for (auto flips = random() % 3 + 1; flips > 0; --flips)
            damaged[random() % damaged.size()] ^= static_cast<char>(1u << random() % 8);
        if (round % 4 == 0) damaged.resize(random() % damaged.size());
        if (round % 5 == 0)
            damaged.insert(random() % (damaged.size() + 1), 1, "{}[],:\"0"[random() % 8]);
        const std::vector<char> exact(damaged.begin(), damaged.end());  // ASan sees its end
        const auto view = safetensors_view::parse(std::as_bytes(std::span(exact)));
        if (!view) continue;
        for (const auto& [name, tensor] : view->tensors)
            for (std::byte byte : tensor.bytes) ASSERT_LE(std::to_integer<int>(byte), 255);
    }
}

TEST(safetensors_file, maps_the_embedded_model) {
    const auto file = safetensors_file::open(std::string(SEMANTIC_SOURCE_DIR) +
                                             "/etc/models/semantic-tiny/model.safetensors");
    ASSERT_TRUE(file) << file.error().what;
    EXPECT_FALSE(file->view().tensors.empty());
    const std::byte before = file->bytes().back();
    file->drop(file->bytes());
    EXPECT_EQ(file->bytes().back(), before);
}

TEST(safetensors_file, missing_empty_and_broken_files_are_named) {
    const tests::temp_dir directory;
    const auto missing = safetensors_file::open(directory / "none.safetensors");
    ASSERT_FALSE(missing);
    EXPECT_EQ(missing.error().code, errc::not_found);
    EXPECT_NE(missing.error().what.find("none.safetensors"), std::string::npos);

    std::ofstream(directory / "empty.safetensors").close();
    const auto empty = safetensors_file::open(directory / "empty.safetensors");
    ASSERT_FALSE(empty);
    EXPECT_EQ(empty.error().code, errc::corrupt);

    std::ofstream(directory / "short.safetensors") << "abc";
    const auto broken = safetensors_file::open(directory / "short.safetensors");
    ASSERT_FALSE(broken);
    EXPECT_EQ(broken.error().code, errc::corrupt);
    EXPECT_NE(broken.error().what.find("short.safetensors"), std::string::npos);

    const auto folder = safetensors_file::open(directory.path());
    ASSERT_FALSE(folder);
    EXPECT_EQ(folder.error().code, errc::io);
}

TEST(safetensors_file, views_survive_a_move) {
    auto opened = safetensors_file::open(std::string(SEMANTIC_SOURCE_DIR) +
                                         "/etc/models/semantic-tiny/model.safetensors");
    ASSERT_TRUE(opened);
    const std::byte* first = opened->bytes().data();
    safetensors_file moved = std::move(*opened);
    EXPECT_EQ(moved.bytes().data(), first);
    EXPECT_TRUE(opened->bytes().empty());
}

}  // namespace
}  // namespace semantic::storage
