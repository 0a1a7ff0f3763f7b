// SPDX-License-Identifier: Apache-2.0
// Tokenizers of the families of late 2026 as tokenizer.json and as the GGUF that is made of it,
// against the ids of Hugging Face's tokenizers.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "engine/text/tokenizer/tokenizer.hpp"
#include "storage/files/gguf.hpp"
#include "tests/engine/text/golden_files.hpp"

namespace semantic::engine {
namespace {

using ids = std::vector<token_id>;

struct family {
    const char* folder;
    std::size_t cases;
    /// What a GGUF says of the tokens in front of a text differs from tokenizer.json: Gemma 4's
    /// converter always writes add_bos_token, and no key holds GLM-4's [gMASK]<sop>.
    const char* first_in_gguf = nullptr;
};

constexpr family families[] = {{"qwen35", 177}, {"gemma4", 196},   {"gemma4-it", 196, "<bos>"},
                               {"tekken", 180}, {"glm4", 176, ""}, {"glm4.5", 180},
                               {"dolma2", 176}, {"granite4", 177}, {"seed-coder", 172},
                               {"lfm2", 178},   {"deepseek3", 174}};

std::string folder_of(const family& each) {
    return "tests/golden/tokenizers/" + std::string(each.folder);
}

ids ids_at(const boost::json::value& json, const char* key) {
    return boost::json::value_to<ids>(json.at(key));
}

tokenizer from_json(const family& each) {
    auto made = tokenizer::load(source_path(folder_of(each)));
    EXPECT_TRUE(made) << each.folder << ": " << (made ? "" : made.error().what);
    return std::move(made.value());
}

tokenizer from_gguf(const family& each) {
    auto file = storage::gguf_file::open(source_path(folder_of(each) + "/tokenizer.gguf")).value();
    auto made = tokenizer::from_gguf(file.view(), {});
    EXPECT_TRUE(made) << each.folder << ": " << (made ? "" : made.error().what);
    return std::move(made.value());
}

class tokenizer_families : public ::testing::TestWithParam<family> {};

TEST_P(tokenizer_families, both_forms_give_the_reference_ids_of_every_case) {
    const family& each = GetParam();
    const auto cases = read_json(folder_of(each) + "/cases.json");
    ASSERT_EQ(cases.as_array().size(), each.cases);
    const tokenizer published = from_json(each), converted = from_gguf(each);
    ids first;
    if (each.first_in_gguf != nullptr) first = converted.encode(each.first_in_gguf);
    for (const auto& one : cases.as_array()) {
        const std::string text = text_at(one, "text");
        const ids plain = ids_at(one, "ids"), with_special = ids_at(one, "ids_with_special");
        for (const tokenizer* made : {&published, &converted}) {
            EXPECT_EQ(made->encode(text), plain) << each.folder << ": " << text;
            EXPECT_EQ(made->decode(plain), text_at(one, "decoded")) << each.folder << ": " << text;
        }
        EXPECT_EQ(published.encode(text, true), with_special) << each.folder << ": " << text;
        ids expected = with_special;
        if (each.first_in_gguf != nullptr) {
            expected = first;
            expected.insert(expected.end(), plain.begin(), plain.end());
        }
        EXPECT_EQ(converted.encode(text, true), expected) << each.folder << ": " << text;
    }
}

TEST_P(tokenizer_families, both_forms_take_the_same_tokens_for_special) {
    const tokenizer published = from_json(GetParam()), converted = from_gguf(GetParam());
    ASSERT_EQ(published.vocabulary(), converted.vocabulary());
    for (token_id id = 0; id < published.vocabulary(); ++id) {
        EXPECT_EQ(published.bytes(id), converted.bytes(id)) << GetParam().folder << " " << id;
        EXPECT_EQ(published.is_special(id), converted.is_special(id))
            << GetParam().folder << ": " << published.bytes(id);
    }
}

INSTANTIATE_TEST_SUITE_P(published, tokenizer_families, ::testing::ValuesIn(families),
                         [](const auto& each) {
                             std::string name = each.param.folder;
                             std::replace_if(
                                 name.begin(), name.end(),
                                 [](char c) { return c == '-' || c == '.'; }, '_');
                             return name;
                         });

}  // namespace
}  // namespace semantic::engine
