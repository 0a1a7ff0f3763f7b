#include "storage/manifest.hpp"

#include <gtest/gtest.h>

#include <random>

#include "storage/checksum.hpp"
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
    return agent;
}

/// A manifest file with this body and the checksum that belongs to it.
std::string sealed(const std::string& body) {
    return "{\"checksum\":\"" + checksum128(body).hex() + "\"," + body;
}

std::string body_of(const manifest& agent) {
    return encode_manifest(agent).value().substr(std::string("{\"checksum\":\"\",").size() + 32);
}

std::string replaced(std::string text, const std::string& part, const std::string& by) {
    const std::size_t at = text.find(part);
    EXPECT_NE(at, std::string::npos) << part;
    return text.replace(at, part.size(), by);
}

// The file of FORMAT.md; a change here is a change of format.
TEST(manifest, equals_the_published_example) {
    const std::string published =
        R"({"checksum":"566b44429440015c58a824218e91d9c9","format":"semantic-agent","format)"
        R"(_version":1,"fingerprint":"000102030405060708090a0b0c0d0e0f","agent":"sess_1","c)"
        R"(reated_us":1234567,"last_used_us":7654321,"blocks":[["5c7401c0ec22eeeeeaf06c6480)"
        R"(b2cd11",2],["d89f1c4509f3b233272b57e6d7c0a9e5",1]],"tokens":[5,0,2147483647],"to)"
        R"(ken_bytes":[1,0,3],"text":"abé","notes":[["day","Friday"],["last",""]]})";
    EXPECT_EQ(encode_manifest(example()).value(), published);
    const auto format = read_whole(
        posix_file_system(), std::string(SEMANTIC_SOURCE_DIR) + "/storage/FORMAT.md", 1 << 20);
    EXPECT_NE(format.value().find(published), std::string::npos) << "FORMAT.md shows another one";
}

TEST(manifest, file_name_is_derived_and_never_holds_the_id) {
    EXPECT_EQ(manifest_path("salt", "sess_1"), "agents/cad66e4c8549873e1ef1489b61f0e9d5.json");
    EXPECT_NE(manifest_path("salt", "a"), manifest_path("salt", "b"));
    EXPECT_NE(manifest_path("salt", "a"), manifest_path("tlas", "a"));
    EXPECT_NE(manifest_path("sal", "ta"), manifest_path("salt", "a"));
}

TEST(manifest, is_decoded_as_encoded) {
    const auto decoded = decode_manifest(encode_manifest(example()).value());
    ASSERT_TRUE(decoded) << decoded.error().what;
    EXPECT_EQ(*decoded, example());
    manifest empty;
    empty.agent = "a";
    EXPECT_EQ(decode_manifest(encode_manifest(empty).value()).value(), empty);
}

// Goal: text is whatever tokens make, which need not be UTF-8. Method: every byte, broken
// sequences, random strings.
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
        const auto decoded = decode_manifest(encode_manifest(agent).value());
        ASSERT_TRUE(decoded) << decoded.error().what;
        ASSERT_EQ(*decoded, agent);
    }
}

TEST(manifest, every_flip_and_every_truncation_is_corrupt) {
    const std::string whole = encode_manifest(example()).value();
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
    EXPECT_EQ(decode_manifest(whole + " ").error().code, errc::corrupt);
    EXPECT_EQ(decode_manifest("").error().code, errc::corrupt);
}

// Method: bodies whose checksum is right, so that the parser itself is what refuses them.
TEST(manifest, fields_out_of_their_range_are_corrupt_and_named) {
    const std::string body = body_of(example());
    const auto expect = [&](const std::string& part, const std::string& by,
                            const std::string& named) {
        const auto decoded = decode_manifest(sealed(replaced(body, part, by)));
        ASSERT_FALSE(decoded) << by;
        EXPECT_EQ(decoded.error().code, errc::corrupt) << by;
        EXPECT_NE(decoded.error().what.find(named), std::string::npos) << decoded.error().what;
    };
    expect("\"tokens\":[5,", "\"tokens\":[-5,", "tokens");
    expect("2147483647", "2147483648", "tokens");
    expect("\"tokens\":[5,0", "\"tokens\":[5", "token ends");
    expect("\"token_bytes\":[1", "\"token_bytes\":[-1", "token_bytes");
    expect("\"token_bytes\":[1", "\"token_bytes\":[268435457", "token_bytes");
    expect("\"token_bytes\":[1,0,3", "\"token_bytes\":[1,0,4", "beyond the text");
    expect("\"token_bytes\":[1", "\"token_bytes\":[1.5", "token_bytes");
    expect(",2],", ",3],", "blocks");
    expect(",2],", ",0],", "blocks");
    expect("\"agent\":\"sess_1\"", "\"agent\":\"../x\"", "agent");
    expect("\"agent\":\"sess_1\"", "\"agent\":7", "agent");
    expect("\"fingerprint\":\"00", "\"fingerprint\":\"0x", "fingerprint");
    expect("\"created_us\":1234567", "\"created_us\":9223372036854775807", "created_us");
    expect("\"text\":\"ab\u00e9\"", "\"text\":{\"hex\":\"zz\"}", "text");
    expect("\"text\":\"ab\u00e9\"", "\"text\":{\"hex\":\"abc\"}", "text");
    expect("\"text\":\"ab\u00e9\"", "\"text\":null", "text");
    expect("[\"last\",\"\"]", "[\"day\",\"\"]", "notes");
    expect("[\"last\",\"\"]", "[\"last\"]", "notes");
    expect("\"notes\":", "\"tokens\":", "twice");
    expect("\"notes\":", "\"other\":", "notes");
}

TEST(manifest, of_another_format_version_is_incompatible) {
    const std::string body =
        replaced(body_of(example()), "\"format_version\":1", "\"format_version\":2");
    EXPECT_EQ(decode_manifest(sealed(body)).error().code, errc::incompatible);
    // A later version may have other fields altogether.
    const auto bare =
        decode_manifest(sealed("\"format\":\"semantic-agent\",\"format_version\":9}"));
    EXPECT_EQ(bare.error().code, errc::incompatible);
    EXPECT_EQ(decode_manifest(sealed("\"format\":\"semantic-agent\"}")).error().code,
              errc::corrupt);
}

TEST(manifest, what_would_not_be_read_is_not_written) {
    manifest agent = example();
    agent.notes.clear();
    for (std::size_t i = 0; i < manifest_notes_max; ++i) agent.notes[std::to_string(i)] = "";
    EXPECT_TRUE(encode_manifest(agent));
    agent.notes["one more"] = "";
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
    const std::string body = body_of(example());
    std::mt19937 random(11);
    for (int round = 0; round < 20000; ++round) {
        std::string damaged = body;
        for (auto flips = random() % 3 + 1; flips > 0; --flips)
            damaged[random() % damaged.size()] ^= static_cast<char>(1u << random() % 8);
        if (round % 4 == 0) damaged.resize(random() % damaged.size());
        if (round % 5 == 0)
            damaged.insert(random() % (damaged.size() + 1), 1, "{}[],:\"0"[random() % 8]);
        const auto decoded = decode_manifest(sealed(damaged));
        ASSERT_TRUE(!decoded || encode_manifest(*decoded)) << damaged;
    }
}

TEST(replace_manifest, leaves_the_new_version_and_no_temporary) {
    const semantic::tests::temp_dir directory;
    const std::string path = directory / "m.json";
    file_system& files = posix_file_system();
    ASSERT_TRUE(replace_manifest(files, path, "one"));
    EXPECT_EQ(replace_manifest(files, path, "second").value(), 6u);
    EXPECT_EQ(read_whole(files, path, 99).value(), "second");
    EXPECT_EQ(files.list(directory.path())->size(), 1u);
}

}  // namespace
}  // namespace semantic::storage
