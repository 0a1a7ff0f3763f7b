// SPDX-License-Identifier: Apache-2.0
#include "storage/files/gguf.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <random>

#include "tests/support/gguf_writer.hpp"
#include "tests/support/temp_dir.hpp"

namespace semantic::storage {
namespace {

using semantic::tests::gguf_writer;
using semantic::tests::temp_dir;
using type = gguf_value_type;

constexpr std::uint32_t f32 = 0, q8_0 = 8, q4_k = 12;

result<gguf_view> parse(const std::string& file) {
    return gguf_view::parse(std::as_bytes(std::span(file)));
}

/// Expects `file` to be refused with a sentence that has `part` in it.
void expect_refused(const std::string& file, const std::string& part, errc code = errc::corrupt) {
    const auto view = parse(file);
    ASSERT_FALSE(view) << "accepted; should name: " << part;
    EXPECT_EQ(view.error().code, code) << view.error().what;
    EXPECT_NE(view.error().what.find(part), std::string::npos) << view.error().what;
}

/// A file with something of everything.
gguf_writer sample() {
    gguf_writer out;
    out.pair("general.architecture", "llama")
        .pair("u8", type::u8, gguf_writer::raw(std::uint8_t{200}))
        .pair("i8", type::i8, gguf_writer::raw(std::int8_t{-3}))
        .pair("u16", type::u16, gguf_writer::raw(std::uint16_t{60000}))
        .pair("i16", type::i16, gguf_writer::raw(std::int16_t{-300}))
        .pair("u32", 7u)
        .pair("i32", type::i32, gguf_writer::raw(std::int32_t{-70000}))
        .pair("f32", type::f32, gguf_writer::raw(0.5f))
        .pair("f64", type::f64, gguf_writer::raw(0.1))
        .pair("yes", type::boolean, std::string(1, '\1'))
        .pair("u64", type::u64, gguf_writer::raw(~std::uint64_t{0}))
        .pair("i64", type::i64, gguf_writer::raw(std::int64_t{-1}))
        .pair("words", std::vector<std::string>{"a", "", std::string("\xff\0z", 3)})
        .pair("scores", type::array,
              gguf_writer::raw(static_cast<std::uint32_t>(type::f32)) +
                  gguf_writer::raw(std::uint64_t{2}) + gguf_writer::raw(-1.5f) +
                  gguf_writer::raw(2.0f))
        .tensor("norm", {3}, f32, std::string(12, 'n'))
        .tensor("matrix", {64, 2}, q8_0, std::string(4 * 34, 'q'));
    return out;
}

std::string one_tensor(std::vector<std::uint64_t> dimensions, std::uint32_t kind,
                       std::size_t bytes) {
    return gguf_writer().tensor("t", std::move(dimensions), kind, std::string(bytes, 'x')).bytes();
}

TEST(gguf_view, reads_every_kind_of_value_and_tensor) {
    const std::string file = sample().bytes();
    const auto view = parse(file);
    ASSERT_TRUE(view) << view.error().what;
    const auto& pairs = view->metadata;
    EXPECT_EQ(view->version, 3u);
    EXPECT_EQ(std::get<std::string_view>(pairs.at("general.architecture")), "llama");
    EXPECT_EQ(std::get<std::uint64_t>(pairs.at("u8")), 200u);
    EXPECT_EQ(std::get<std::int64_t>(pairs.at("i8")), -3);
    EXPECT_EQ(std::get<std::uint64_t>(pairs.at("u16")), 60000u);
    EXPECT_EQ(std::get<std::int64_t>(pairs.at("i16")), -300);
    EXPECT_EQ(std::get<std::uint64_t>(pairs.at("u32")), 7u);
    EXPECT_EQ(std::get<std::int64_t>(pairs.at("i32")), -70000);
    EXPECT_EQ(std::get<float>(pairs.at("f32")), 0.5f);
    EXPECT_EQ(std::get<double>(pairs.at("f64")), 0.1);
    EXPECT_TRUE(std::get<bool>(pairs.at("yes")));
    EXPECT_EQ(std::get<std::uint64_t>(pairs.at("u64")), ~std::uint64_t{0});
    EXPECT_EQ(std::get<std::int64_t>(pairs.at("i64")), -1);
    const auto& words = std::get<gguf_array>(pairs.at("words"));
    EXPECT_EQ(words.strings, (std::vector<std::string_view>{"a", "", {"\xff\0z", 3}}));
    const auto& scores = std::get<gguf_array>(pairs.at("scores"));
    ASSERT_EQ(scores.count, 2u);
    EXPECT_EQ(scores.number(0), -1.5);
    EXPECT_EQ(scores.number(1), 2.0);
    const gguf_tensor& matrix = view->tensors.at("matrix");
    EXPECT_EQ(matrix.type, gguf_type::q8_0);
    EXPECT_EQ(matrix.shape, (std::vector<std::int64_t>{2, 64}));
    EXPECT_EQ(matrix.bytes.size(), 136u);
    EXPECT_EQ(matrix.bytes[0], std::byte{'q'});
    EXPECT_EQ(view->tensors.at("norm").bytes.size(), 12u);
}

TEST(gguf_view, versions_2_and_3_are_read_and_no_others) {
    gguf_writer file = sample();
    file.version = 2;
    EXPECT_TRUE(parse(file.bytes()));
    for (const std::uint32_t version : {0u, 1u, 4u}) {
        file.version = version;
        expect_refused(file.bytes(), "version " + std::to_string(version), errc::incompatible);
    }
    file.version = 0x03000000;
    expect_refused(file.bytes(), "big-endian", errc::incompatible);
    expect_refused("PK\3\4" + std::string(100, 'x'), "does not begin with GGUF");
}

TEST(gguf_view, every_truncation_is_an_error_that_says_why) {
    const std::string file = sample().bytes();
    for (std::size_t kept = 0; kept < file.size(); ++kept) {
        const auto view = parse(file.substr(0, kept));
        ASSERT_FALSE(view) << kept << " of " << file.size() << " bytes were accepted";
        EXPECT_EQ(view.error().code, errc::corrupt);
        EXPECT_FALSE(view.error().what.empty());
    }
}

TEST(gguf_view, any_changed_byte_is_read_or_refused_and_nothing_leads_outside) {
    const std::string file = sample().bytes();
    std::mt19937 random(1);
    for (int round = 0; round < 20000; ++round) {
        std::string damaged = file;
        for (int i = 0; i < 1 + round % 3; ++i)
            damaged[random() % damaged.size()] = static_cast<char>(random());
        const auto view = parse(damaged);
        if (!view) continue;
        const auto* begin = reinterpret_cast<const std::byte*>(damaged.data());
        for (const auto& [name, tensor] : view->tensors) {
            EXPECT_GE(tensor.bytes.data(), begin);
            EXPECT_LE(tensor.bytes.data() + tensor.bytes.size(), begin + damaged.size());
        }
    }
}

TEST(gguf_view, counts_that_cannot_fit_are_refused_before_anything_is_reserved) {
    gguf_writer file = sample();
    file.extra_tensors = ~std::uint64_t{0} / 2;
    expect_refused(file.bytes(), "do not fit");
    file = sample();
    file.extra_pairs = ~std::uint64_t{0} / 2;
    expect_refused(file.bytes(), "do not fit");
    expect_refused(gguf_writer()
                       .pair("a", type::array,
                             gguf_writer::raw(static_cast<std::uint32_t>(type::string)) +
                                 gguf_writer::raw(~std::uint64_t{0}))
                       .bytes(),
                   "does not fit");
    expect_refused(
        gguf_writer().pair("a", type::string, gguf_writer::raw(~std::uint64_t{0})).bytes(),
        "metadata \"a\"");
}

TEST(gguf_view, wrong_metadata_is_refused_by_key) {
    expect_refused(gguf_writer().pair("", "value").bytes(), "a metadata key");
    expect_refused(gguf_writer().pair(std::string(65536, 'k'), 1u).bytes(), "65536 bytes");
    EXPECT_TRUE(parse(gguf_writer().pair(std::string(65535, 'k'), 1u).bytes()));
    expect_refused(gguf_writer().pair("k", 1u).pair("k", 2u).bytes(), "\"k\": stands there twice");
    expect_refused(gguf_writer().pair("k", static_cast<type>(13), "four").bytes(), "value type 13");
    expect_refused(gguf_writer().pair("k", type::boolean, "\2").bytes(), "a boolean is 2");
    expect_refused(gguf_writer()
                       .pair("k", type::array,
                             gguf_writer::raw(static_cast<std::uint32_t>(type::array)) +
                                 gguf_writer::raw(std::uint64_t{0}))
                       .bytes(),
                   "arrays of arrays");
    expect_refused(gguf_writer()
                       .pair("k", type::array,
                             gguf_writer::raw(static_cast<std::uint32_t>(type::boolean)) +
                                 gguf_writer::raw(std::uint64_t{2}) + std::string("\1\2", 2))
                       .bytes(),
                   "neither 0 nor 1");
}

TEST(gguf_view, alignment_is_a_power_of_two_that_offsets_keep_to) {
    for (const std::uint32_t alignment : {1u, 64u, 1u << 20}) {
        gguf_writer file;
        file.alignment = alignment;
        file.pair("general.alignment", alignment).tensor("a", {1}, f32, std::string(4, 'a'));
        EXPECT_TRUE(parse(file.tensor("b", {1}, f32, std::string(4, 'b')).bytes())) << alignment;
    }
    for (const std::uint32_t alignment : {0u, 48u, 1u << 21})
        expect_refused(gguf_writer().pair("general.alignment", alignment).bytes(),
                       "is " + std::to_string(alignment));
    expect_refused(gguf_writer().pair("general.alignment", "32").bytes(), "no unsigned whole");
    expect_refused(gguf_writer().tensor_at("t", {1}, f32, 4, std::string(64, 'x')).bytes(),
                   "no multiple of 32");
}

TEST(gguf_view, tensors_keep_inside_the_file_and_apart) {
    expect_refused(one_tensor({4}, f32, 15), "16 bytes at 0 of the tensors' 15");
    EXPECT_TRUE(parse(one_tensor({4}, f32, 16)));
    expect_refused(gguf_writer()
                       .tensor("a", {16}, f32, std::string(64, 'a'))
                       .tensor_at("b", {16}, f32, 32, std::string(64, 'b'))
                       .bytes(),
                   "\"b\": overlaps");
    expect_refused(
        gguf_writer().tensor("a", {1}, f32, "aaaa").tensor("a", {1}, f32, "bbbb").bytes(),
        "\"a\": stands there twice");
    expect_refused(gguf_writer().tensor_at("a", {1}, f32, ~std::uint64_t{0} - 31, "aaaa").bytes(),
                   "incomplete download?");
}

TEST(gguf_view, shapes_are_bounded_and_rows_are_whole_blocks) {
    EXPECT_TRUE(parse(one_tensor({1, 1, 1, 2}, f32, 8)));
    expect_refused(one_tensor({}, f32, 64), "0 dimensions");
    expect_refused(one_tensor({1, 1, 1, 1, 1}, f32, 4), "5 dimensions");
    expect_refused(one_tensor({0}, f32, 0), "dimension 0 is 0");
    expect_refused(one_tensor({1ull << 63}, f32, 0), "dimension 0 is 9223372036854775808");
    expect_refused(one_tensor({1ull << 32, 1ull << 32}, f32, 0), "too large");
    expect_refused(one_tensor({1ull << 62}, f32, 0), "too large");
    expect_refused(one_tensor({33}, q8_0, 68), "rows of 33 elements are no whole number of Q8_0");
    expect_refused(one_tensor({128}, q4_k, 144), "no whole number of Q4_K blocks of 256");
    expect_refused(one_tensor({256}, 4, 144), "its type 4 is not known", errc::incompatible);
    expect_refused(gguf_writer().tensor("", {1}, f32, "aaaa").bytes(), "a tensor's name");
    expect_refused(gguf_writer().tensor(std::string(257, 'n'), {1}, f32, "aaaa").bytes(),
                   "257 bytes");
    EXPECT_TRUE(parse(gguf_writer().tensor(std::string(256, 'n'), {1}, f32, "aaaa").bytes()));
}

/// One of `count` parts with one tensor in it.
std::string part(std::uint16_t number, std::uint16_t count, std::int32_t tensors,
                 const std::string& name) {
    return gguf_writer()
        .pair("split.no", type::u16, gguf_writer::raw(number))
        .pair("split.count", type::u16, gguf_writer::raw(count))
        .pair("split.tensors.count", type::i32, gguf_writer::raw(tensors))
        .tensor(name, {1}, f32, "aaaa")
        .bytes();
}

class gguf_parts : public testing::Test {
  protected:
    std::string put(const std::string& name, const std::string& bytes) {
        const std::string path = directory_.path() + "/" + name;
        std::ofstream(path, std::ios::binary) << bytes;
        return path;
    }
    void expect_open_refused(const std::string& path, const std::string& why) {
        const auto files = open_gguf(path);
        ASSERT_FALSE(files) << why;
        EXPECT_NE(files.error().what.find(why), std::string::npos) << files.error().what;
    }
    temp_dir directory_;
};

TEST_F(gguf_parts, all_are_found_whichever_is_named) {
    const auto first = put("m-00001-of-00002.gguf", part(0, 2, 2, "a"));
    const auto second = put("m-00002-of-00002.gguf", part(1, 2, 2, "b"));
    for (const std::string& path : {first, second}) {
        const auto files = open_gguf(path);
        ASSERT_TRUE(files) << files.error().what;
        ASSERT_EQ(files->size(), 2u);
        EXPECT_TRUE((*files)[0].view().tensors.contains("a"));
        EXPECT_TRUE((*files)[1].view().tensors.contains("b"));
    }
}

TEST_F(gguf_parts, a_file_that_has_all_is_one_part) {
    const auto files = open_gguf(put("whole.gguf", sample().bytes()));
    ASSERT_TRUE(files) << files.error().what;
    EXPECT_EQ(files->size(), 1u);
}

TEST_F(gguf_parts, what_contradicts_itself_is_refused_by_file) {
    const auto first = put("m-00001-of-00002.gguf", part(0, 2, 2, "a"));
    expect_open_refused(first, "m-00002-of-00002.gguf: open");
    put("m-00002-of-00002.gguf", part(0, 2, 2, "b"));
    expect_open_refused(first, "not what its name says");
    put("m-00002-of-00002.gguf", part(1, 2, 2, "a"));
    expect_open_refused(first, "is in another part too");
    put("m-00002-of-00002.gguf", part(1, 2, 3, "b"));
    expect_open_refused(first, "not what its name says");
    put("m-00001-of-00002.gguf", part(0, 2, 3, "a"));
    expect_open_refused(first, "have 2 tensors, it says 3");
    expect_open_refused(put("other.gguf", part(0, 2, 2, "a")), "its name does not end so");
    expect_open_refused(put("beyond.gguf", part(2, 2, 2, "a")), "part 2 of 2");
    expect_open_refused(put("empty.gguf", ""), "empty");
    expect_open_refused(directory_.path() + "/none.gguf", "none.gguf: open");
}

}  // namespace
}  // namespace semantic::storage
