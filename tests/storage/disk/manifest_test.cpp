// SPDX-License-Identifier: Apache-2.0
#include "storage/disk/manifest.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <limits>
#include <random>

#include "storage/files/checksum.hpp"
#include "tests/support/temp_dir.hpp"

namespace semantic::storage {
namespace {

manifest example() {
    manifest agent;
    for (std::size_t i = 0; i < 16; ++i) agent.fingerprint.bytes[i] = static_cast<std::uint8_t>(i);
    agent.agent = "sess_1";
    agent.tokens = {5, 0, 2147483647};
    agent.text = "ab\u00e9";
    agent.token_ends = {1, 1, 4};
    agent.blocks = {{checksum128("x"), 2}, {checksum128("y"), 1}};
    agent.created = std::chrono::system_clock::time_point(std::chrono::microseconds(1234567));
    agent.last_used = std::chrono::system_clock::time_point(std::chrono::microseconds(7654321));
    agent.notes = {{"day", "Friday"}, {"last", ""}};
    agent.messages = {{"msg_1", 1, "b"}, {"msg_2", 3, {}}};
    return agent;
}

std::string hex(std::string_view bytes) {
    constexpr char digits[] = "0123456789abcdef";
    std::string text;
    for (char each : bytes) {
        text += digits[static_cast<unsigned char>(each) >> 4];
        text += digits[static_cast<unsigned char>(each) & 15];
    }
    return text;
}

std::string encoded(const manifest& agent) { return encode_manifest(agent).value().bytes; }

constexpr std::size_t header_bytes = 24, record_header_bytes = 24;

std::string_view view_of(const block_hash& hash) {
    return {reinterpret_cast<const char*>(hash.bytes.data()), hash.bytes.size()};
}

/// A file with one record of this payload and the sums that belong to it.
std::string sealed(const std::string& payload) {
    std::string file = encoded(example()).substr(0, header_bytes);
    const std::uint64_t count = payload.size();
    const std::string length(reinterpret_cast<const char*>(&count), sizeof count);
    const std::string bound = std::string(view_of(checksum128(file))) + length +
                              std::string(view_of(checksum128(payload)));
    return file + length + std::string(view_of(checksum128(bound))) + payload;
}

std::string payload_of(const manifest& agent) {
    return encoded(agent).substr(header_bytes + record_header_bytes);
}

/// The version after example(): the first block stays, the second gives way to two.
manifest next_version() {
    manifest agent = example();
    agent.tokens = {5, 0, 7, 8, 9};
    agent.text = "ab-longer";
    agent.token_ends = {1, 1, 2, 3, 9};
    agent.blocks = {{checksum128("x"), 2}, {checksum128("z"), 2}, {checksum128("w"), 1}};
    agent.last_used += std::chrono::seconds(5);
    agent.notes = {{"day", "Saturday"}};
    agent.messages = {{"msg_1", 1, "b"}, {"msg_3", 5, {}}};
    return agent;
}

std::string two_versions() {
    const auto first = encode_manifest(example()).value();
    return first.bytes + encode_update(next_version(), {1, 2, 1}, first.seal).value().bytes;
}

// The file of FORMAT.md; a change here is a change of format.
TEST(manifest, equals_the_published_example) {
    const std::string published = hex(two_versions());
    const auto format = read_whole(
        posix_file_system(), std::string(SEMANTIC_SOURCE_DIR) + "/storage/FORMAT.md", 1 << 20);
    std::string shown;  // FORMAT.md breaks the digits into lines
    for (char each : format.value())
        if (each != '\n' && each != ' ') shown += each;
    EXPECT_NE(shown.find(published), std::string::npos) << "FORMAT.md shows another than\n"
                                                        << published;
}

TEST(manifest, an_update_says_only_what_is_new) {
    const auto decoded = decode_manifest(two_versions());
    ASSERT_TRUE(decoded) << decoded.error().what;
    EXPECT_EQ(decoded->agent, next_version());
    EXPECT_FALSE(decoded->torn);
    // A long past costs an update nothing.
    manifest longer = example();
    longer.blocks = {{checksum128("x"), 100000}, {checksum128("y"), 1}};
    longer.tokens.assign(100001, 3);
    longer.token_ends.assign(100001, 1);
    const auto update = encode_update(longer, {1, 100000, 2}, {}).value();
    EXPECT_LT(update.bytes.size(), 200u);
}

// Goal: whatever becomes of the last record, the version before it stays readable.
TEST(manifest, a_record_that_is_not_whole_leaves_the_version_before_it) {
    const std::string whole = two_versions();
    const std::size_t first_bytes = encoded(example()).size();
    for (std::size_t kept = first_bytes + 1; kept < whole.size(); ++kept) {
        const auto decoded = decode_manifest(whole.substr(0, kept));
        ASSERT_TRUE(decoded) << kept;
        ASSERT_TRUE(decoded->torn);
        ASSERT_EQ(decoded->agent, example());
    }
    for (std::size_t at = first_bytes; at < whole.size(); ++at) {
        std::string damaged = whole;
        damaged[at] ^= 0x20;
        const auto decoded = decode_manifest(damaged);
        ASSERT_TRUE(decoded) << at;
        ASSERT_TRUE(decoded->torn);
        ASSERT_EQ(decoded->agent, example());
    }
    EXPECT_TRUE(decode_manifest(whole + " ")->torn);
}

TEST(manifest, a_record_of_another_file_is_not_taken_for_a_newer_version) {
    manifest other = example();
    other.agent = "sess_2";
    const auto first = encode_manifest(other).value();
    const auto decoded = decode_manifest(
        encoded(example()) + encode_update(next_version(), {1, 2, 1}, first.seal).value().bytes);
    EXPECT_TRUE(decoded->torn);
    EXPECT_EQ(decoded->agent, example());
}

TEST(manifest, another_tenant_than_the_default_one_is_kept) {
    manifest agent = example();
    agent.tenant = {checksum128("tenant")};
    EXPECT_EQ(decode_manifest(encoded(agent))->agent, agent);
}

TEST(manifest, file_name_is_derived_and_never_holds_the_id) {
    const block_hash model = example().fingerprint;
    const std::string path = manifest_path("salt", "sess_1", model);
    EXPECT_EQ(path,
              "agents/cad66e4c8549873e1ef1489b61f0e9d5.000102030405060708090a0b0c0d0e0f.manifest");
    EXPECT_NE(manifest_path("salt", "a", model), manifest_path("salt", "b", model));
    EXPECT_NE(manifest_path("salt", "a", model), manifest_path("tlas", "a", model));
    EXPECT_NE(manifest_path("sal", "ta", model), manifest_path("salt", "a", model));
    EXPECT_NE(manifest_path("salt", "a", model), manifest_path("salt", "a", checksum128("other")));
    EXPECT_EQ(agent_part(path), agent_part(manifest_path("salt", "sess_1", checksum128("other"))));
    EXPECT_NE(agent_part(path), agent_part(manifest_path("salt", "sess_2", model)));
}

TEST(manifest, is_decoded_as_encoded) {
    const auto decoded = decode_manifest(encoded(example()));
    ASSERT_TRUE(decoded) << decoded.error().what;
    EXPECT_EQ(decoded->agent, example());
    manifest empty;
    empty.agent = "a";
    EXPECT_EQ(decode_manifest(encoded(empty))->agent, empty);
}

// Goal: text is whatever tokens make, which need not be UTF-8. Method: every byte, broken
// sequences, random strings.
TEST(manifest, a_clock_set_wrong_costs_no_memory) {
    using clock = std::chrono::system_clock;
    using std::chrono::microseconds;
    constexpr std::int64_t clock_max = std::numeric_limits<std::int64_t>::max() / 1000;
    constexpr std::int64_t time_max = clock_max / 2;  // in the year 2116
    for (const auto& [set, kept] :
         {std::pair{time_max, time_max}, std::pair{time_max + 1, time_max},
          std::pair{clock_max, time_max}})
        for (const int sign : {1, -1}) {
            manifest agent = example();
            agent.created = agent.last_used = clock::time_point(microseconds(sign * set));
            const auto whole = encode_manifest(agent);
            ASSERT_TRUE(whole);
            const auto update = encode_update(agent, {}, whole->seal);
            ASSERT_TRUE(update);
            agent.created = agent.last_used = clock::time_point(microseconds(sign * kept));
            const auto found = decode_manifest(whole->bytes + update->bytes);
            ASSERT_TRUE(found) << found.error().what;
            EXPECT_FALSE(found->torn);
            EXPECT_EQ(found->agent, agent) << sign * set;
        }
}

TEST(manifest, text_and_notes_survive_arbitrary_bytes) {
    std::vector<std::string> texts = {std::string("nul \0 inside", 12),
                                      "\xc3",
                                      "\xc3\xa9",
                                      "\xe2\x82",
                                      "\xed\xa0\x80",
                                      "\xf4\x90\x80\x80",
                                      "\xc0\x80",
                                      "\xf0\x9f\x98\x80",
                                      "\xef\xbf\xbd",
                                      "\"\\/\b\n",
                                      "\x7f\u2028",
                                      "\xff\xfe",
                                      "\xe0\x9f\xbf",
                                      "\xf0\x8f\xbf\xbf",
                                      "\xf8\x88\x80\x80\x80"};
    std::string all;
    for (int i = 0; i < 256; ++i) all += static_cast<char>(i);
    texts.push_back(all);
    std::mt19937 random(3);
    for (int round = 0; round < 300; ++round) {
        std::string text(random() % 20, ' ');
        for (char& each : text) each = static_cast<char>(random() % (round % 2 ? 256 : 128));
        texts.push_back(text);
    }
    for (const std::string& text : texts) {
        manifest agent = example();
        agent.text = text;
        agent.token_ends = {0, 0, static_cast<std::uint32_t>(text.size())};
        agent.notes = {{text, text}, {"k" + text, ""}};
        const auto decoded = decode_manifest(encoded(agent));
        ASSERT_TRUE(decoded) << decoded.error().what;
        ASSERT_EQ(decoded->agent, agent);
    }
}

TEST(manifest, every_flip_and_every_truncation_is_corrupt) {
    const std::string whole = encoded(example());
    for (std::size_t at = 0; at < whole.size(); ++at)
        for (int bit = 0; bit < 8; ++bit) {
            std::string damaged = whole;
            damaged[at] ^= static_cast<char>(1 << bit);
            const auto decoded = decode_manifest(damaged);
            ASSERT_FALSE(decoded) << at;
            ASSERT_EQ(decoded.error().code, errc::corrupt);
        }
    for (std::size_t kept = 0; kept < whole.size(); ++kept)
        ASSERT_EQ(decode_manifest(whole.substr(0, kept)).error().code, errc::corrupt);
}

// Method: payloads whose sums are right, so that the parser itself is what refuses them.
TEST(manifest, fields_out_of_their_range_are_corrupt_and_named) {
    const std::string payload = payload_of(example());
    const auto bytes_of = [](auto value) {
        return std::string(reinterpret_cast<const char*>(&value), sizeof value);
    };
    const auto expect = [&](const std::string& part, const std::string& by,
                            const std::string& named) {
        const std::size_t at = payload.find(part);
        ASSERT_NE(at, std::string::npos) << named;
        std::string changed = payload;
        changed.replace(at, part.size(), by);
        const auto decoded = decode_manifest(sealed(changed));
        ASSERT_FALSE(decoded) << named;
        EXPECT_EQ(decoded.error().code, errc::corrupt) << named;
        EXPECT_NE(decoded.error().what.find(named), std::string::npos) << decoded.error().what;
    };
    const std::string tokens = bytes_of(5) + bytes_of(0) + bytes_of(2147483647);
    const std::string ends = {1, 0, 3};
    expect(tokens, bytes_of(5) + bytes_of(-1) + bytes_of(2147483647), "tokens");
    expect(bytes_of(3) + tokens, bytes_of(2) + tokens, "");
    expect(bytes_of(3) + tokens, bytes_of(1 << 25) + tokens, "tokens");
    expect(tokens + ends, tokens + std::string({1, 0, 4}), "beyond the text");
    expect(tokens + ends, tokens + "\xff\xff\xff\xff\x0f" + std::string(2, 0), "token_bytes");
    expect(tokens + ends, tokens + std::string(6, '\x80') + std::string(2, 0), "token_bytes");
    const std::string first_block(view_of(checksum128("x")));
    expect(first_block + bytes_of(2), first_block + bytes_of(3), "blocks");
    expect(first_block + bytes_of(2), first_block + bytes_of(0), "blocks");
    expect(bytes_of(0) + bytes_of(2) + first_block, bytes_of(1) + bytes_of(2) + first_block,
           "blocks keeps more");
    expect(bytes_of(0) + bytes_of(2) + first_block, bytes_of(0) + bytes_of(1 << 25) + first_block,
           "blocks");
    expect("sess_1", "sess/1", "agent");
    expect(bytes_of(6) + "sess_1", bytes_of(0x7fffffff) + "sess_1", "agent");
    expect(bytes_of(std::int64_t{1234567}), bytes_of(std::int64_t{1} << 62), "created_us");
    expect(bytes_of(std::int64_t{7654321}), bytes_of(-(std::int64_t{1} << 62)), "last_used_us");
    expect(bytes_of(4) + "last", bytes_of(3) + "day" + std::string(1, 0), "notes");
    expect(bytes_of(4) + "last", bytes_of(400) + "last", "notes");
    expect(bytes_of(2) + bytes_of(3) + "day", bytes_of(257) + bytes_of(3) + "day", "notes");
    expect("msg_1", "msg/1", "messages");
    expect("msg_1" + bytes_of(1), "msg_1" + bytes_of(4), "messages");
    expect("msg_2" + bytes_of(3), "msg_2" + bytes_of(0), "messages");
    expect(bytes_of(0) + bytes_of(2) + bytes_of(5) + "msg_1",
           bytes_of(1) + bytes_of(1) + bytes_of(5) + "msg_1", "messages keeps more");
    expect(bytes_of(2) + bytes_of(5) + "msg_1", bytes_of(1025) + bytes_of(5) + "msg_1", "messages");
    EXPECT_EQ(decode_manifest(sealed(payload + " ")).error().code, errc::corrupt);
    EXPECT_EQ(decode_manifest(sealed("")).error().code, errc::corrupt);
    for (std::size_t kept = 0; kept < payload.size(); ++kept)
        ASSERT_EQ(decode_manifest(sealed(payload.substr(0, kept))).error().code, errc::corrupt);
}

// Method: a manifest by a program that wrote such times unchecked.
TEST(manifest, times_that_a_clock_can_say_are_read_and_others_are_corrupt) {
    constexpr std::int64_t clock_max = std::numeric_limits<std::int64_t>::max() / 1000;
    const auto with_created = [](std::int64_t value) {
        std::string payload = payload_of(example());
        const std::int64_t known = 1234567;
        const std::string_view bytes(reinterpret_cast<const char*>(&known), sizeof known);
        std::memcpy(payload.data() + payload.find(bytes), &value, sizeof value);
        return decode_manifest(sealed(payload));
    };
    const auto latest = std::chrono::system_clock::time_point(
        std::chrono::microseconds(std::numeric_limits<std::int64_t>::max() / 2000));
    const auto found = with_created(clock_max);
    ASSERT_TRUE(found) << found.error().what;
    EXPECT_EQ(found->agent.created, latest);
    EXPECT_TRUE(with_created(-clock_max));
    EXPECT_EQ(with_created(clock_max + 1).error().code, errc::corrupt);
    EXPECT_EQ(with_created(-clock_max - 1).error().code, errc::corrupt);
}

TEST(manifest, of_another_format_version_is_incompatible) {
    std::string header = encoded(example()).substr(0, 16);
    header[8] = 9;
    const std::uint64_t sum = checksum_of(header);
    header.append(reinterpret_cast<const char*>(&sum), sizeof sum);
    // A later version may go on in any way.
    EXPECT_EQ(decode_manifest(header).error().code, errc::incompatible);
    EXPECT_EQ(decode_manifest(header + "anything").error().code, errc::incompatible);
}

TEST(manifest, what_would_not_be_read_is_not_written) {
    manifest agent = example();
    agent.notes.clear();
    for (std::size_t i = 0; i < manifest_notes_max; ++i) agent.notes[std::to_string(i)] = "";
    EXPECT_TRUE(encode_manifest(agent));
    agent.notes["one more"] = "";
    EXPECT_EQ(encode_manifest(agent).error().code, errc::bad_value);
    agent = example();
    agent.messages.assign(8, {"m", 1, std::string(message_rest_bytes_max, 'x')});
    EXPECT_TRUE(encode_manifest(agent));
    agent.messages.back().rest += 'x';
    EXPECT_EQ(encode_manifest(agent).error().code, errc::bad_value);
    agent.messages.assign(messages_max, {"m", 3, {}});
    EXPECT_TRUE(encode_manifest(agent));
    agent.messages.push_back({"m", 3, {}});
    EXPECT_EQ(encode_manifest(agent).error().code, errc::bad_value);
    agent.messages = {{"m", 4, {}}};
    EXPECT_EQ(encode_manifest(agent).error().code, errc::bad_value);
    agent = example();
    agent.token_ends = {2, 1, 4};
    EXPECT_EQ(encode_manifest(agent).error().code, errc::bad_value);
    agent = example();
    agent.tokens[0] = -1;
    EXPECT_EQ(encode_manifest(agent).error().code, errc::bad_value);
    agent = example();
    agent.blocks.pop_back();
    EXPECT_EQ(encode_manifest(agent).error().code, errc::bad_value);
}

TEST(manifest, no_damage_with_a_right_checksum_crashes_the_parser) {
    const std::string payload = payload_of(next_version());
    std::mt19937 random(11);
    for (int round = 0; round < 20000; ++round) {
        std::string damaged = payload;
        for (auto flips = random() % 3 + 1; flips > 0; --flips)
            damaged[random() % damaged.size()] ^= static_cast<char>(1u << random() % 8);
        if (round % 4 == 0) damaged.resize(random() % damaged.size());
        if (round % 5 == 0)
            damaged.insert(random() % (damaged.size() + 1), 1, static_cast<char>(random()));
        const auto decoded = decode_manifest(sealed(damaged));
        ASSERT_TRUE(!decoded || encode_manifest(decoded->agent)) << hex(damaged);
    }
}

TEST(replace_file, leaves_the_new_version_and_no_temporary) {
    const semantic::tests::temp_dir directory;
    const std::string path = directory / "m.manifest";
    file_system& files = posix_file_system();
    ASSERT_TRUE(replace_file(files, path, "one"));
    ASSERT_TRUE(replace_file(files, path, "second"));
    EXPECT_EQ(read_whole(files, path, 99).value(), "second");
    EXPECT_EQ(files.list(directory.path())->size(), 1u);
}

TEST(append_manifest, writes_behind_what_is_there_and_makes_no_file) {
    const semantic::tests::temp_dir directory;
    const std::string path = directory / "m.manifest";
    file_system& files = posix_file_system();
    EXPECT_EQ(append_manifest(files, path, "x").error().code, errc::not_found);
    ASSERT_TRUE(replace_file(files, path, "one"));
    ASSERT_TRUE(append_manifest(files, path, "two"));
    EXPECT_EQ(read_whole(files, path, 99).value(), "onetwo");
}

}  // namespace
}  // namespace semantic::storage
