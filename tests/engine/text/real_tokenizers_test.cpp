// SPDX-License-Identifier: Apache-2.0
// Published models, where they are (tests/support/real_models.hpp). What a file is compared with
// was made by tests/golden/tokenizers/real/make.py.

#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "engine/text/template/chat_template.hpp"
#include "engine/text/tokenizer/tokenizer.hpp"
#include "storage/files/gguf.hpp"
#include "tests/engine/text/golden_files.hpp"
#include "tests/support/real_models.hpp"

namespace semantic::engine {

namespace {

namespace fs = std::filesystem;
using texts = std::vector<std::string>;

class digest {  // FNV-1a
  public:
    void add(std::string_view bytes) {
        for (const char c : bytes)
            value_ = (value_ ^ static_cast<unsigned char>(c)) * 0x100000001b3;
    }
    void add(std::uint32_t number) {
        for (int i = 0; i < 4; ++i) add(std::string(1, static_cast<char>(number >> (8 * i))));
    }
    std::string hex() const {
        char out[17];
        std::snprintf(out, sizeof out, "%016llx", static_cast<unsigned long long>(value_));
        return out;
    }

  private:
    std::uint64_t value_ = 0xcbf29ce484222325;
};

class congruential {
  public:
    std::size_t below(std::size_t bound) {
        state_ = state_ * 6364136223846793005ULL + 1442695040888963407ULL;
        return static_cast<std::size_t>(state_ >> 33U) % bound;
    }

  private:
    std::uint64_t state_ = 20;
};

std::string utf8_of(std::uint32_t code) {
    const auto byte = [](std::uint32_t value) { return static_cast<char>(value); };
    if (code < 0x80) return {byte(code)};
    if (code < 0x800) return {byte(0xC0 | code >> 6), byte(0x80 | (code & 0x3F))};
    if (code < 0x10000)
        return {byte(0xE0 | code >> 12), byte(0x80 | (code >> 6 & 0x3F)),
                byte(0x80 | (code & 0x3F))};
    return {byte(0xF0 | code >> 18), byte(0x80 | (code >> 12 & 0x3F)),
            byte(0x80 | (code >> 6 & 0x3F)), byte(0x80 | (code & 0x3F))};
}

/// 10,000 lines of words, code, punctuation and single characters, by script.
std::vector<std::pair<std::string, texts>> lines() {
    const auto file = read_json("tests/golden/tokenizers/real/lines.json");
    const auto between = boost::json::value_to<texts>(file.at("between"));
    const auto& scripts = file.at("scripts").as_object();
    const auto latin = boost::json::value_to<texts>(scripts.at("latin").at("words"));
    struct source {
        texts words;
        std::vector<std::vector<std::uint32_t>> ranges;
    };
    std::vector<source> sources;
    std::vector<std::pair<std::string, texts>> out;
    for (const auto& [name, script] : scripts) {
        sources.push_back(
            {boost::json::value_to<texts>(script.at("words")),
             boost::json::value_to<std::vector<std::vector<std::uint32_t>>>(script.at("ranges"))});
        out.emplace_back(name, texts());
    }
    congruential random;
    const auto one_of = [&](const texts& list) { return list[random.below(list.size())]; };
    for (std::size_t i = 0; i < file.at("lines").to_number<std::size_t>(); ++i) {
        const source& from = sources[i % sources.size()];
        std::string line;
        for (std::size_t left = 3 + random.below(14); left > 0; --left) {
            const std::size_t kind = random.below(8);
            if (kind <= 5) {
                line += one_of(kind < 5 ? from.words : latin);
            } else {
                const auto& range = from.ranges[random.below(from.ranges.size())];
                const std::size_t count = range[1] - range[0] + 1;
                line += utf8_of(range[0] + static_cast<std::uint32_t>(random.below(count)));
            }
            line += one_of(between);
        }
        out[i % sources.size()].second.push_back(std::move(line));
    }
    return out;
}

/// By which a published vocabulary is known. Converters write some blanks as blanks, and put
/// something where an id has no token.
std::string digest_of_tokens(const storage::gguf_view& file) {
    digest made;
    std::size_t id = 0;
    const auto& list = file.metadata.find("tokenizer.ggml.tokens")->second;
    for (const std::string_view token : std::get<storage::gguf_array>(list).strings) {
        if (token == "[PAD" + std::to_string(id++) + "]") continue;
        std::string plain(token);
        for (std::size_t at = 0; (at = plain.find("▁", at)) != std::string::npos;)
            plain.replace(at, 3, " ");
        made.add(plain);
    }
    return made.hex();
}

std::string digest_of_ids(const tokenizer& words, const texts& lines) {
    digest made;
    for (const std::string& line : lines) {
        const auto ids = words.encode(line);
        made.add(static_cast<std::uint32_t>(ids.size()));
        for (const token_id id : ids) made.add(static_cast<std::uint32_t>(id));
    }
    return made.hex();
}

}  // namespace

TEST(real_tokenizers, ids_of_ten_thousand_lines_in_six_scripts_are_the_references) {
    const auto models = tests::real_models();
    if (models.empty()) GTEST_SKIP() << tests::no_real_models;
    const auto known = read_json("tests/golden/tokenizers/real/digests.json");
    const auto all = lines();
    int compared = 0;
    for (const fs::path& path : models) {
        const auto file = storage::gguf_file::open(path.string()).value();
        const auto begin = std::chrono::steady_clock::now();
        const auto words = tokenizer::from_gguf(file.view());
        const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
        ASSERT_TRUE(words) << path << ": " << words.error().what;
        const std::string tokens = digest_of_tokens(file.view());
        for (const auto& [name, expected] : known.as_object()) {
            if (text_at(expected, "tokens") != tokens) continue;
            ++compared;
            std::printf("%s is %s, loaded in %.3f s\n", path.c_str(), std::string(name).c_str(),
                        took.count());
            for (const auto& [script, of] : all)
                EXPECT_EQ(digest_of_ids(*words, of), text_at(expected, script.c_str()))
                    << path << ": " << script;
        }
    }
    if (compared == 0) GTEST_SKIP() << "skipped: none of the files is a model of digests.json";
}

TEST(real_tokenizers, a_folder_beside_the_file_has_the_same_tokens) {
    int compared = 0;
    for (const fs::path& path : tests::real_models()) {
        const fs::path folder = fs::path(path).replace_extension();
        if (!fs::exists(folder / "tokenizer.json")) continue;
        ++compared;
        const auto file = storage::gguf_file::open(path.string()).value();
        const auto words = tokenizer::from_gguf(file.view()).value();
        const auto reference = tokenizer::load(folder.string()).value();
        ASSERT_EQ(words.vocabulary(), reference.vocabulary());
        for (token_id id = 0; id < words.vocabulary(); ++id) {
            EXPECT_EQ(words.bytes(id), reference.bytes(id)) << id;
            EXPECT_EQ(words.decode({id}), reference.decode({id})) << id;
        }
        for (const auto& [script, of] : lines())
            for (const std::string& line : of)
                ASSERT_EQ(words.encode(line, true), reference.encode(line, true)) << line;
        EXPECT_EQ(chat_template::from_gguf(file.view())->identity(),
                  chat_template::load(folder.string())->identity());
    }
    if (compared == 0) GTEST_SKIP() << "skipped: no X.gguf with a folder X beside it";
}

}  // namespace semantic::engine
