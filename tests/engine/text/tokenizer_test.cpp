// SPDX-License-Identifier: Apache-2.0
#include "engine/text/tokenizer/tokenizer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <thread>

#include "tests/engine/text/golden_files.hpp"

namespace semantic::engine {

namespace {

using ids = std::vector<token_id>;

std::string folder_of(const std::string& name) {
    return name == "semantic-tiny" ? "etc/models/semantic-tiny" : "tests/golden/tokenizers/" + name;
}

tokenizer load(const std::string& name) {
    auto made = tokenizer::load(source_path(folder_of(name)));
    EXPECT_TRUE(made) << (made ? "" : made.error().what);
    return std::move(made.value());
}

ids ids_at(const boost::json::value& json, const char* key) {
    return boost::json::value_to<ids>(json.at(key));
}

std::string repeat(const std::string& part, std::size_t bytes) {
    std::string out;
    while (out.size() < bytes) out += part;
    return out;
}

/// Texts made of parts that splitters, merges and added tokens treat in different ways.
class random_text {
  public:
    explicit random_text(unsigned seed) : random_(seed) {}
    std::string next(std::size_t parts) {
        static const std::vector<std::string> alphabet = {
            "a",    "B",     "the",       "Agent",    " ",          "  ",           "\n",   "\n\n",
            "\r\n", "\t",    "1",         "234",      "!",          "...",          "'s",   "'LL",
            "'",    "é",     "e\xCC\x81", "\xCC\x81", "日",         "本語",         "🙂", "½",
            "٣",    "ภ",     "-",         "/",        "<|im_end|>", "<|im_start|>", "<|",   "_end",
            "|>",   "<bos>", "<0x41>",    "\xC2\xA0", "▁",          "  x",          "한",   "\xFF"};
        std::string out;
        for (std::size_t i = 0; i < parts; ++i) out += alphabet[random_() % alphabet.size()];
        return out;
    }
    std::size_t below(std::size_t bound) { return bound == 0 ? 0 : random_() % bound; }

  private:
    std::mt19937 random_;
};

}  // namespace

class tokenizer_golden : public ::testing::TestWithParam<const char*> {};

TEST_P(tokenizer_golden, encodes_and_decodes_like_the_reference) {
    const tokenizer t = load(GetParam());
    const auto cases =
        read_json("tests/golden/tokenizers/" + std::string(GetParam()) + "/cases.json");
    ASSERT_FALSE(cases.as_array().empty());
    for (const auto& c : cases.as_array()) {
        const std::string text = text_at(c, "text");
        EXPECT_EQ(t.encode(text), ids_at(c, "ids")) << text;
        EXPECT_EQ(t.encode(text, true), ids_at(c, "ids_with_special")) << text;
        EXPECT_EQ(t.decode(ids_at(c, "ids")), text_at(c, "decoded")) << text;
    }
}

TEST_P(tokenizer_golden, token_ends_never_decrease_and_end_with_the_text) {
    const tokenizer t = load(GetParam());
    random_text random(11);
    for (int round = 0; round < 300; ++round) {
        const std::string text = random.next(1 + random.below(30));
        std::vector<std::uint32_t> ends;
        const ids found = t.encode(text, ends);
        EXPECT_EQ(found, t.encode(text));
        ASSERT_EQ(ends.size(), found.size());
        if (ends.empty()) continue;
        EXPECT_TRUE(std::is_sorted(ends.begin(), ends.end()));
        EXPECT_EQ(ends.back(), text.size());
    }
}

TEST_P(tokenizer_golden, a_safe_boundary_keeps_the_tokens_of_both_sides) {
    const tokenizer t = load(GetParam());
    random_text random(12);
    int safe = 0;
    for (int round = 0; round < 1500; ++round) {
        const std::string text = random.next(2 + random.below(40));
        const std::size_t cut = random.below(text.size() + 1);
        const std::string left = text.substr(0, cut);
        const std::string right = text.substr(cut);
        if (!t.is_safe_boundary(left, right)) continue;
        ++safe;
        ids apart = t.encode(left);
        const ids second = t.encode(right);
        apart.insert(apart.end(), second.begin(), second.end());
        ASSERT_EQ(apart, t.encode(text)) << "cut at " << cut << " of: " << text;
    }
    EXPECT_GT(safe, 50);  // an answer that is always "no" would be safe and useless
}

TEST_P(tokenizer_golden, a_safe_boundary_holds_in_long_texts_and_long_runs) {
    const tokenizer t = load(GetParam());
    random_text random(13);
    const std::vector<std::string> runs = {" ", "\n", "a", "1", "!", " \n", "日", "é", "e\xCC\x81"};
    int safe = 0;
    for (int round = 0; round < 400; ++round) {
        std::string text = random.next(random.below(300));
        text += repeat(runs[random.below(runs.size())], random.below(1400));
        text += random.next(random.below(300));
        if (text.size() < 2) continue;
        const std::size_t cut = random.below(text.size());
        const std::string left = text.substr(0, cut);
        const std::string right = text.substr(cut);
        if (!t.is_safe_boundary(left, right)) continue;
        ++safe;
        ids apart = t.encode(left);
        const ids second = t.encode(right);
        apart.insert(apart.end(), second.begin(), second.end());
        ASSERT_EQ(apart, t.encode(text)) << "cut at " << cut << " of: " << text;
    }
    EXPECT_GT(safe, 10);
}

TEST_P(tokenizer_golden, hostile_megabytes_take_linear_time) {
    const tokenizer t = load(GetParam());
    for (const std::string part : {"a", "A", " ", "\n", " \n", "1", "🙂", "!", "日", "aB1 ",
                                   "<|im_", "\xCC\x81\xCC\xA3", "\xFF"}) {
        const std::string text = repeat(part, 1U << 20);
        const auto start = std::chrono::steady_clock::now();
        const ids found = t.encode(text);
        const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
        EXPECT_FALSE(found.empty());
        EXPECT_LT(took.count(), 20.0) << part;  // quadratic time would be hours
        if (std::getenv("SEMANTIC_TIMES") != nullptr) {
            std::printf("%s %s %.3f s, %zu tokens\n", GetParam(), part.c_str(), took.count(),
                        found.size());
        }
    }
}

INSTANTIATE_TEST_SUITE_P(golden, tokenizer_golden,
                         ::testing::Values("llama3", "qwen2", "smollm2", "gemma3", "o200k",
                                           "deepseek2", "semantic-tiny", "qwen35", "tekken", "glm4",
                                           "seed-coder", "lfm2", "deepseek3"),
                         [](const auto& test) {
                             std::string name = test.param;
                             std::replace(name.begin(), name.end(), '-', '_');
                             return name;
                         });

// What is refused by its bytes alone must have that many tokens however it is tokenised.
TEST(tokenizer, no_token_stands_for_more_bytes_than_the_tokenizer_says) {
    for (const char* name :
         {"semantic-tiny", "smollm2", "llama3", "qwen2", "gemma3", "o200k", "deepseek2"}) {
        const tokenizer words = load(name);
        const std::size_t most = words.bytes_per_token_max();
        ASSERT_GT(most, 0u) << name;
        random_text texts(7);
        for (int round = 0; round < 300; ++round) {
            const std::string text = repeat(texts.next(3), 400);
            EXPECT_GE(words.encode(text).size() * most, text.size()) << name;
        }
        for (const char* part :
             {" ", "\n", "=", "-", "\xE2\x84\xAA", "\xE1\x84\x92\xE1\x85\xA1\xE1\x86\xAB"}) {
            const std::string text = repeat(part, 4000);
            EXPECT_GE(words.encode(text).size() * most, text.size()) << name;
        }
    }
}

TEST(tokenizer, every_supported_component_gives_the_ids_of_the_reference) {
    const auto all = read_json("tests/golden/tokenizers/components.json");
    for (const auto& one : all.as_array()) {
        const std::string name = text_at(one, "name");
        const auto t = tokenizer::parse(boost::json::serialize(one.at("tokenizer")));
        ASSERT_TRUE(t) << name << ": " << t.error().what;
        for (const auto& c : one.at("cases").as_array()) {
            const std::string text = text_at(c, "text");
            const ids expected = ids_at(c, "ids");
            EXPECT_EQ(t->encode(text), expected) << name << ": " << text;
            EXPECT_EQ(t->encode(text, true), ids_at(c, "ids_with_special")) << name;
            EXPECT_EQ(t->decode(expected), text_at(c, "decoded")) << name << ": " << text;
            EXPECT_EQ(t->decode(expected, true), text_at(c, "decoded_without_special")) << name;
            for (std::size_t cut = 1; cut < text.size(); ++cut) {
                if (!t->is_safe_boundary(text.substr(0, cut), text.substr(cut))) continue;
                ids apart = t->encode(text.substr(0, cut));
                const ids second = t->encode(text.substr(cut));
                apart.insert(apart.end(), second.begin(), second.end());
                EXPECT_EQ(apart, expected) << name << " cut at " << cut << " of: " << text;
            }
        }
    }
}

namespace {

/// The embedded model's tokenizer with one part replaced.
storage::result<tokenizer> tokenizer_with(const char* part, const char* json) {
    auto file = read_json("etc/models/semantic-tiny/tokenizer.json");
    file.as_object()[part] = boost::json::parse(json);
    return tokenizer::parse(boost::json::serialize(file));
}

}  // namespace

TEST(tokenizer, what_is_not_supported_is_refused_by_name) {
    const struct {
        const char *part, *json, *named;
    } cases[] = {
        {"normalizer", R"({"type": "BertNormalizer"})", "BertNormalizer"},
        {"normalizer", R"({"type": "Sequence", "normalizers": [{"type": "Lowercase"}]})",
         "Lowercase"},
        {"pre_tokenizer", R"({"type": "Metaspace"})", "Metaspace"},
        {"pre_tokenizer", R"({"type": "Split", "pattern": {"String": "x"}, "behavior": "Odd"})",
         "Odd"},
        {"pre_tokenizer",
         R"({"type": "Split", "pattern": {"Regex": "(a"}, "behavior": "Isolated"})", "(a"},
        {"pre_tokenizer",
         R"({"type": "Split", "pattern": {"Regex": "a{1,3}+"}, "behavior": "Isolated"})",
         "counted repeat"},
        {"pre_tokenizer",
         R"({"type": "Split", "pattern": {"Regex": "[a&&b]"}, "behavior": "Isolated"})", "&&"},
        {"pre_tokenizer", R"({"type": "Digits"})",
         "ByteLevel"},  // the decoder has it, this has not
        {"decoder", R"({"type": "WordPiece"})", "WordPiece"},
        {"decoder", "null", "null"},
        {"post_processor", R"({"type": "BertProcessing"})", "BertProcessing"},
        {"model", R"({"type": "Unigram", "vocab": []})", "Unigram"},
        {"model", R"({"type": "BPE", "dropout": 0.1, "vocab": {}, "merges": []})", "dropout"},
        {"model", R"({"type": "BPE", "end_of_word_suffix": "</w>", "vocab": {}, "merges": []})",
         "end_of_word_suffix"},
    };
    for (const auto& c : cases) {
        const auto made = tokenizer_with(c.part, c.json);
        ASSERT_FALSE(made) << c.json;
        EXPECT_EQ(made.error().code, storage::errc::incompatible) << c.json;
        EXPECT_THAT(made.error().what, ::testing::HasSubstr(c.named)) << c.json;
        EXPECT_EQ(made.error().what.find('\n'), std::string::npos);
    }
}

TEST(tokenizer, a_file_that_contradicts_itself_is_corrupt) {
    const struct {
        const char *part, *json, *named;
    } cases[] = {
        {"model", R"({"type": "BPE", "merges": []})", "vocab"},
        {"model", R"({"type": "BPE", "vocab": {}})", "merges"},
        {"model", R"({"type": "BPE", "vocab": {"a": -1}, "merges": []})", "'a'"},
        {"model", R"({"type": "BPE", "vocab": {"a": 16777216}, "merges": []})", "'a'"},
        {"model", R"({"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": ["a b"]})", "merges[0]"},
        {"model", R"({"type": "BPE", "vocab": {"a": 0}, "merges": ["a"]})", "merges[0]"},
        {"model", R"({"type": "BPE", "unk_token": "?", "vocab": {"a": 0}, "merges": []})", "'?'"},
        {"added_tokens", R"([{"id": 99999999999, "content": "x"}])", "'x'"},
    };
    for (const auto& c : cases) {
        const auto made = tokenizer_with(c.part, c.json);
        ASSERT_FALSE(made) << c.json;
        EXPECT_EQ(made.error().code, storage::errc::corrupt) << c.json;
        EXPECT_THAT(made.error().what, ::testing::HasSubstr(c.named)) << c.json;
    }
    EXPECT_EQ(tokenizer::parse("{").error().code, storage::errc::corrupt);
    EXPECT_EQ(tokenizer::parse("[]").error().code, storage::errc::corrupt);
    EXPECT_EQ(tokenizer::load("/nowhere/at/all").error().code, storage::errc::not_found);
}

TEST(tokenizer, invalid_utf8_is_encoded_byte_by_byte) {
    for (const char* name : {"semantic-tiny", "llama3", "gemma3"}) {
        const tokenizer t = load(name);
        const std::string text = "a\xFF\xC3(\xE2\x82\x80 b\xF0\x9F";
        std::string bytes;
        for (const token_id id : t.encode(text)) bytes += t.bytes(id);
        EXPECT_EQ(bytes, text) << name;
    }
}

TEST(tokenizer, the_bytes_of_the_tokens_are_the_text) {
    random_text random(21);
    for (const char* name : {"semantic-tiny", "llama3", "smollm2", "o200k", "deepseek2"}) {
        const tokenizer t = load(name);
        for (int round = 0; round < 200; ++round) {
            const std::string text = random.next(20);
            std::vector<std::uint32_t> ends;
            std::string bytes;
            std::size_t token = 0;
            for (const token_id id : t.encode(text, ends)) {
                bytes += t.bytes(id);
                ASSERT_EQ(bytes.size(), ends[token++]);
            }
            ASSERT_EQ(bytes, text);
        }
    }
}

TEST(tokenizer, token_ends_follow_the_source_when_normalising_changes_lengths) {
    const tokenizer t = load("qwen2");
    std::vector<std::uint32_t> ends;
    const ids found = t.encode("e\xCC\x81<|im_end|>1", ends);  // two characters become one
    ASSERT_EQ(found.back(), t.find("1"));
    ASSERT_GE(ends.size(), 3U);
    EXPECT_EQ(ends[ends.size() - 3], 3U);
    EXPECT_EQ(ends[ends.size() - 2], 13U);
    EXPECT_EQ(ends.back(), 14U);
}

TEST(tokenizer, threads_share_one_tokenizer) {
    const tokenizer t = load("qwen2");
    const std::string text = random_text(31).next(2000);
    const ids expected = t.encode(text);
    std::vector<std::thread> threads;
    std::vector<int> wrong(4, 0);
    for (std::size_t i = 0; i < wrong.size(); ++i) {
        threads.emplace_back([&, i] {
            for (int round = 0; round < 20; ++round) wrong[i] += t.encode(text) == expected ? 0 : 1;
        });
    }
    for (std::thread& one : threads) one.join();
    EXPECT_EQ(wrong, std::vector<int>(4, 0));
}

TEST(tokenizer, ids_outside_the_vocabulary_are_harmless) {
    const tokenizer t = load("semantic-tiny");
    EXPECT_EQ(t.vocabulary(), 4096);
    EXPECT_EQ(t.bytes(-1), "");
    EXPECT_EQ(t.bytes(t.vocabulary()), "");
    EXPECT_FALSE(t.is_special(-1));
    EXPECT_FALSE(t.is_special(t.vocabulary()));
    EXPECT_EQ(t.decode({-1, t.vocabulary()}), "");
    EXPECT_EQ(t.find("no such token"), -1);
    EXPECT_TRUE(t.is_special(t.find("<|im_end|>")));
    EXPECT_FALSE(t.is_special(t.find("a")));
    EXPECT_EQ(t.bytes(t.find("<|im_end|>")), "<|im_end|>");
    EXPECT_EQ(t.decode({1, 2}, true), "");
}

TEST(tokenizer, special_tokens_are_boundaries_and_half_characters_are_not) {
    const tokenizer t = load("semantic-tiny");
    EXPECT_TRUE(t.is_safe_boundary("text<|im_end|>", "more"));
    EXPECT_TRUE(t.is_safe_boundary("text", "<|im_end|>"));
    EXPECT_FALSE(t.is_safe_boundary("text<|im_", "end|>"));
    EXPECT_FALSE(t.is_safe_boundary("te", "xt"));
    EXPECT_FALSE(t.is_safe_boundary("\xC3", "\xA9"));
    EXPECT_TRUE(t.is_safe_boundary("", "x"));
    EXPECT_TRUE(t.is_safe_boundary("x", ""));
    EXPECT_TRUE(t.is_safe_boundary("one", " two"));
    EXPECT_FALSE(t.is_safe_boundary("one ", "two"));
}

}  // namespace semantic::engine
