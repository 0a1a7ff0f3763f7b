// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <map>
#include <sstream>

#include "engine/text/gguf/tokenizer_kind.hpp"
#include "engine/text/tokenizer/tokenizer.hpp"
#include "storage/files/gguf.hpp"
#include "tests/engine/text/golden_files.hpp"
#include "tests/support/gguf_tokenizer.hpp"

namespace semantic::engine {

namespace {

using storage::errc;
using storage::gguf_view;
using tests::add_flag;
using tests::add_numbers;
using tests::gguf_writer;
using value = storage::gguf_value_type;
using ids = std::vector<token_id>;
using texts = std::vector<std::string>;

gguf_view view_of(const std::string& file) {
    auto made = gguf_view::parse(std::as_bytes(std::span(file.data(), file.size())));
    EXPECT_TRUE(made) << (made ? "" : made.error().what);
    return std::move(made.value());
}

/// A reading of a file that is kept as long as it takes.
storage::result<tokenizer> tokenizer_of(const gguf_writer& file, std::string_view pre = {}) {
    const std::string bytes = file.bytes();
    return tokenizer::from_gguf(view_of(bytes), pre);
}

storage::result<tokenizer> golden(const std::string& name, std::string_view pre = {}) {
    auto file =
        storage::gguf_file::open(source_path("tests/golden/tokenizers/gguf/" + name)).value();
    return tokenizer::from_gguf(file.view(), pre);
}

/// `expected`: what the reference makes of the texts of cases.json.
void expect_like(const tokenizer& words, const boost::json::value& cases,
                 const boost::json::value& expected, const std::string& label) {
    const auto all = boost::json::value_to<texts>(cases.at("texts"));
    const auto wanted = boost::json::value_to<std::vector<ids>>(expected.at("ids"));
    ASSERT_EQ(all.size(), wanted.size());
    for (std::size_t i = 0; i < all.size(); ++i)
        EXPECT_EQ(words.encode(all[i]), wanted[i]) << label << ": " << all[i];
    EXPECT_EQ(words.encode(all[0], true),
              boost::json::value_to<ids>(expected.at("first_with_special")))
        << label;
    const auto decoded = boost::json::value_to<texts>(expected.at("decoded"));
    const auto without = boost::json::value_to<texts>(expected.at("without_special"));
    for (std::size_t i = 0; i < decoded.size(); ++i) {
        EXPECT_EQ(words.decode(wanted[i]), decoded[i]) << label << ": " << all[i];
        EXPECT_EQ(words.decode(wanted[i], true), without[i]) << label << ": " << all[i];
    }
}

boost::json::value cases() { return read_json("tests/golden/tokenizers/gguf/cases.json"); }

/// A small right file, in parts, so that a test can put another in the place of one.
struct small_file {
    std::vector<std::string> tokens = {"<|end|>", "a", "b", "c", "ab", "abc"};
    std::vector<std::int32_t> types = {3, 1, 1, 1, 1, 1};
    std::vector<std::string> merges = {"a b", "ab c"};
    std::string model = "gpt2";
    std::string pre = "gpt-2";
    std::vector<std::function<void(gguf_writer&)>> more{};
    std::string left_out{};

    gguf_writer file() const {
        gguf_writer out;
        const auto has = [&](const char* key) { return left_out != key; };
        if (has("model")) out.pair("tokenizer.ggml.model", std::string_view(model));
        if (has("pre")) out.pair("tokenizer.ggml.pre", std::string_view(pre));
        if (has("tokens")) out.pair("tokenizer.ggml.tokens", tokens);
        if (has("types")) add_numbers(out, "tokenizer.ggml.token_type", types);
        if (has("merges")) out.pair("tokenizer.ggml.merges", merges);
        for (const auto& add : more) add(out);
        return out;
    }
};

gguf_writer& add_scores(gguf_writer& file, const std::vector<float>& scores) {
    std::string bytes = gguf_writer::raw(static_cast<std::uint32_t>(value::f32)) +
                        gguf_writer::raw(std::uint64_t{scores.size()});
    for (const float score : scores) bytes += gguf_writer::raw(score);
    return file.pair("tokenizer.ggml.scores", value::array, std::move(bytes));
}

small_file small_pieces(std::vector<float> scores = {0, 0, 0, -3, -3, -3, -1, -2}) {
    small_file made;
    made.tokens = {"<unk>", "<s>", "</s>", "a", "b", "c", "ab", "abc"};
    made.types = {2, 3, 3, 1, 1, 1, 1, 1};
    made.model = "llama";
    made.left_out = "merges";
    made.more.push_back([scores](gguf_writer& file) { add_scores(file, scores); });
    return made;
}

/// Pieces whose merges are written, as Gemma 4 has them.
small_file small_gemma4() {
    small_file made;
    made.tokens = {"<pad>", "<eos>",  "<bos>",   "<unk>",        "a",
                   "b",     "\u2581", "a\u2581", "<|tool_call>", "<box>"};
    made.types = {3, 3, 3, 3, 1, 1, 1, 1, 4, 4};
    made.merges = {"a \u2581"};
    made.model = "gemma4";
    made.left_out = "pre";
    return made;
}

void expect_error(const storage::result<tokenizer>& made, errc code, const std::string& named) {
    ASSERT_FALSE(made) << named;
    EXPECT_EQ(made.error().code, code) << made.error().what;
    EXPECT_THAT(made.error().what, ::testing::HasSubstr(named));
    EXPECT_EQ(made.error().what.find('\n'), std::string::npos);
}

}  // namespace

TEST(tokenizer_gguf, gives_the_ids_of_the_tokenizer_json_that_it_was_made_from) {
    const auto all = cases();
    const auto words = golden("qwen2.gguf");
    ASSERT_TRUE(words) << words.error().what;
    expect_like(*words, all, all.at("qwen2.gguf").at("qwen2"), "qwen2");
}

TEST(tokenizer_gguf, every_known_pre_cuts_as_the_tokenizers_published_under_it) {
    const auto all = cases();
    for (const auto& [pre, expected] : all.at("qwen2.gguf").as_object()) {
        const auto words = golden("qwen2.gguf", std::string(pre));
        ASSERT_TRUE(words) << words.error().what;
        expect_like(*words, all, expected, std::string(pre));
    }
}

TEST(tokenizer_gguf, no_known_pre_lacks_a_reference) {
    const auto all = cases();
    const std::map<std::string, std::string> same_as = {
        {"starcoder", "smollm"},   {"refact", "smollm"},          {"llama3", "llama-bpe"},
        {"llama-v3", "llama-bpe"}, {"deepseek-r1-qwen", "qwen2"}, {"llama4", "gpt-4o"},
        {"phi-2", "gpt-2"},        {"pixtral", "tekken"},         {"glm5", "glm4"},
        {"chatglm-bpe", "glm4"}};
    std::istringstream names(tokenizer::gguf_pres());
    for (std::string name; std::getline(names >> std::ws, name, ',');) {
        EXPECT_TRUE(tokenizer::is_gguf_pre(name));
        const auto found = same_as.find(name);
        const std::string& alike = found == same_as.end() ? name : found->second;
        EXPECT_TRUE(all.at("qwen2.gguf").as_object().contains(alike)) << name;
    }
    EXPECT_FALSE(tokenizer::is_gguf_pre("default"));
}

TEST(tokenizer_gguf, scores_give_the_ids_of_the_merges_that_are_published_for_them) {
    const auto all = cases();
    for (const char* name : {"sentencepiece.gguf", "sentencepiece-prefix.gguf"}) {
        const auto words = golden(name);
        ASSERT_TRUE(words) << words.error().what;
        expect_like(*words, all, all.at(name), name);
    }
}

TEST(tokenizer_gguf, trained_tokenizers_keep_their_ids_on_the_way_through_a_file) {
    const std::pair<const char*, const char*> both[] = {{"qwen2", "qwen2"},
                                                        {"smollm2", "smollm"},
                                                        {"llama3", "llama-bpe"},
                                                        {"o200k", "gpt-4o"},
                                                        {"deepseek2", "deepseek-coder"}};
    for (const auto& [name, pre] : both) {
        const std::string folder = "tests/golden/tokenizers/" + std::string(name);
        gguf_writer file;
        tests::add_tokenizer(file, read_json(folder + "/tokenizer.json"), pre);
        const auto words = tokenizer_of(file);
        ASSERT_TRUE(words) << name << ": " << words.error().what;
        const auto wanted = read_json(folder + "/cases.json");
        for (const auto& c : wanted.as_array()) {
            const std::string text = text_at(c, "text");
            const auto expected = boost::json::value_to<ids>(c.at("ids"));
            EXPECT_EQ(words->encode(text), expected) << name << ": " << text;
            EXPECT_EQ(words->encode(text, true),
                      boost::json::value_to<ids>(c.at("ids_with_special")))
                << name << ": " << text;
            EXPECT_EQ(words->decode(expected), text_at(c, "decoded")) << name << ": " << text;
        }
    }
}

TEST(tokenizer_gguf, ids_that_a_converter_padded_are_no_tokens) {
    const auto words = golden("qwen2.gguf").value();
    EXPECT_EQ(words.find("[PAD1605]"), -1);
    EXPECT_EQ(words.vocabulary(), 1604);
    EXPECT_EQ(words.bytes(1605), "");
    small_file odd;  // of that form, and a token all the same
    odd.tokens[5] = "[PAD4]";
    odd.types[5] = 5;
    odd.merges.pop_back();
    EXPECT_EQ(tokenizer_of(odd.file())->find("[PAD4]"), 5);
}

TEST(tokenizer_gguf, what_looks_like_a_control_token_is_special_only_where_it_was_published_so) {
    const auto qwen = golden("qwen2.gguf").value();
    EXPECT_FALSE(qwen.is_special(qwen.find("<|fim_prefix|>")));
    EXPECT_FALSE(qwen.is_special(qwen.find("<tool_call>")));
    EXPECT_TRUE(qwen.is_special(qwen.find("<|box|>")));
    EXPECT_TRUE(qwen.is_special(qwen.find("<|im_end|>")));
    EXPECT_EQ(qwen.encode("<|fim_prefix|>").size(), 1U);
    const auto gemma = golden("sentencepiece.gguf").value();
    EXPECT_FALSE(gemma.is_special(gemma.find("<unused0>")));
    EXPECT_TRUE(gemma.is_special(gemma.find("<unk>")));
}

TEST(tokenizer_gguf, an_unknown_pre_is_refused_with_the_option_that_overrides_it) {
    small_file file;
    file.pre = "falcon";
    expect_error(tokenizer_of(file.file()), errc::incompatible, "'falcon'");
    expect_error(tokenizer_of(file.file()), errc::incompatible,
                 "--tokenizer-pre can name one of: gpt-2, ");
    EXPECT_TRUE(tokenizer_of(file.file(), "gpt-2"));
    expect_error(tokenizer_of(file.file(), "vicuna"), errc::bad_value, "'vicuna'");
    file.left_out = "pre";
    expect_error(tokenizer_of(file.file()), errc::incompatible, "tokenizer.ggml.pre is missing");
    EXPECT_TRUE(tokenizer_of(file.file(), "gpt-2"));
    expect_error(tokenizer_of(small_pieces().file(), "gpt-2"), errc::bad_value, "llama");
    expect_error(tokenizer_of(small_gemma4().file(), "gpt-2"), errc::bad_value, "gemma4");
}

TEST(tokenizer_gguf, what_is_not_supported_is_refused_by_key) {
    small_file file;
    file.model = "bert";
    expect_error(tokenizer_of(file.file()), errc::incompatible, "tokenizer.ggml.model 'bert'");
    file.left_out = "model";
    expect_error(tokenizer_of(file.file()), errc::incompatible, "tokenizer.ggml.model is missing");
    for (const std::string key : {"remove_extra_whitespaces", "add_sep_token"}) {
        small_file one;
        one.more.push_back([&](gguf_writer& out) { add_flag(out, "tokenizer.ggml." + key, true); });
        expect_error(tokenizer_of(one.file()), errc::incompatible, key);
    }
    small_file mapped;
    mapped.more.push_back(
        [](gguf_writer& out) { add_numbers(out, "tokenizer.ggml.precompiled_charsmap", {1}); });
    expect_error(tokenizer_of(mapped.file()), errc::incompatible, "precompiled_charsmap");
}

TEST(tokenizer_gguf, a_file_that_contradicts_itself_is_corrupt_by_key) {
    const struct {
        std::function<void(small_file&)> change;
        const char* named;
    } faults[] = {
        {[](auto& f) { f.left_out = "tokens"; }, "tokenizer.ggml.tokens is missing"},
        {[](auto& f) { f.tokens.clear(); }, "tokenizer.ggml.tokens is missing or empty"},
        {[](auto& f) { f.left_out = "types"; }, "tokenizer.ggml.token_type is missing"},
        {[](auto& f) { f.types.pop_back(); }, "tokenizer.ggml.token_type has 5 elements"},
        {[](auto& f) { f.types.push_back(1); }, "tokenizer.ggml.token_type has 7 elements"},
        {[](auto& f) { f.types[2] = 0; }, "tokenizer.ggml.token_type[2]"},
        {[](auto& f) { f.types[2] = 7; }, "tokenizer.ggml.token_type[2]"},
        {[](auto& f) { f.tokens[3] = "a"; }, "tokenizer.ggml.tokens[3] is the same as [1]"},
        {[](auto& f) { f.tokens[3] = "\xC3"; }, "tokenizer.ggml.tokens[3] is not UTF-8"},
        {[](auto& f) { f.tokens[3] = std::string((64 << 10) + 1, 'x'); },
         "tokenizer.ggml.tokens[3] has 65537 bytes"},
        {[](auto& f) { f.left_out = "merges"; }, "tokenizer.ggml.merges is missing"},
        {[](auto& f) { f.merges[1] = "ab"; }, "tokenizer.ggml.merges[1] is not a pair"},
        {[](auto& f) { f.merges[1] = "a b c"; }, "tokenizer.ggml.merges[1] is not a pair"},
        {[](auto& f) { f.merges[1] = "ab x"; }, "tokenizer.ggml.merges[1] names a token"},
        {[](auto& f) { f.merges[1] = "b a"; }, "tokenizer.ggml.merges[1] names a token"},
        {[](auto& f) {
             f.more.push_back(
                 [](auto& out) { add_flag(out, "tokenizer.ggml.add_bos_token", true); });
         },
         "tokenizer.ggml.bos_token_id is missing"},
        {[](auto& f) {
             f.more.push_back([](auto& out) {
                 add_flag(out, "tokenizer.ggml.add_eos_token", true)
                     .pair("tokenizer.ggml.eos_token_id", std::uint32_t{6});
             });
         },
         "tokenizer.ggml.eos_token_id 6 is no token"},
    };
    for (const auto& fault : faults) {
        small_file file;
        fault.change(file);
        expect_error(tokenizer_of(file.file()), errc::corrupt, fault.named);
    }
    EXPECT_EQ(tokenizer_of(small_file().file())->encode("abcab"), (ids{5, 4}));
}

TEST(tokenizer_gguf, a_value_of_the_wrong_type_is_corrupt_by_key) {
    for (const char* key : {"model", "pre", "tokens", "token_type", "merges", "add_bos_token",
                            "remove_extra_whitespaces", "precompiled_charsmap"}) {
        small_file file;
        const std::string name = std::string("tokenizer.ggml.") + key;
        file.left_out = std::string(key) == "token_type" ? "types" : key;
        file.more.push_back([&](gguf_writer& out) { out.pair(name, std::uint32_t{7}); });
        expect_error(tokenizer_of(file.file()), errc::corrupt, name + " is a whole number, not ");
    }
    small_file strings;
    strings.left_out = "types";
    strings.more.push_back(
        [](gguf_writer& out) { out.pair("tokenizer.ggml.token_type", texts(6, "1")); });
    expect_error(tokenizer_of(strings.file()), errc::corrupt, "is an array of string, not ");
}

TEST(tokenizer_gguf, scores_that_cannot_order_the_pieces_are_corrupt) {
    expect_error(tokenizer_of(small_pieces({0, 0, 0}).file()), errc::corrupt,
                 "tokenizer.ggml.scores has 3 elements");
    const float none = std::numeric_limits<float>::quiet_NaN();
    expect_error(tokenizer_of(small_pieces({0, 0, 0, 0, none, 0, 0, 0}).file()), errc::corrupt,
                 "tokenizer.ggml.scores[4]");
    small_file without = small_pieces();
    without.more.clear();
    expect_error(tokenizer_of(without.file()), errc::corrupt, "tokenizer.ggml.scores is missing");
    small_file piece = small_pieces();
    piece.tokens[4] = std::string(513, 'x');
    expect_error(tokenizer_of(piece.file()), errc::corrupt,
                 "tokenizer.ggml.tokens[4] has 513 bytes");
    piece.tokens[4] = std::string(512, 'x');
    EXPECT_TRUE(tokenizer_of(piece.file()));
    EXPECT_EQ(tokenizer_of(small_pieces().file())->encode("abcab", true), (ids{1, 0, 7, 6}));
}

TEST(tokenizer_gguf, gemma4_merges_pieces_by_its_merges_and_not_by_scores) {
    const auto words = tokenizer_of(small_gemma4().file());
    ASSERT_TRUE(words) << words.error().what;
    EXPECT_EQ(words->encode("ba a", true), (ids{2, 5, 7, 4}));  // no blank in front, <bos> is
    EXPECT_EQ(words->encode("a\xC3\xA9"), (ids{4, 3}));
    // A converter writes its marks as user-defined so that they are shown.
    EXPECT_TRUE(words->is_special(words->find("<|tool_call>")));
    EXPECT_FALSE(words->is_special(words->find("<box>")));
    small_file scored = small_gemma4();
    scored.merges.clear();
    scored.left_out = "merges";
    scored.more.push_back([](gguf_writer& out) {
        add_scores(out, {0, 0, 0, 0, -3, -3, -3, -1, 0, 0});
    });
    expect_error(tokenizer_of(scored.file()), errc::corrupt, "tokenizer.ggml.merges is missing");
}

TEST(tokenizer_gguf, a_kind_that_is_not_read_is_told_without_reading_the_vocabulary) {
    const auto kind_of = [](const gguf_writer& file, std::string_view pre = {}) {
        const std::string bytes = file.bytes();
        const auto checked = kind_of_gguf_tokenizer(view_of(bytes), pre);
        return checked ? std::string() : checked.error().what;
    };
    small_file file;
    file.left_out = "tokens";  // what from_gguf() would miss
    EXPECT_EQ(kind_of(file.file()), "");
    EXPECT_NE(kind_of(file.file(), "vicuna"), "");
    file.pre = "falcon";
    EXPECT_EQ(kind_of(file.file()), tokenizer_of(file.file()).error().what);
    EXPECT_EQ(kind_of(small_gemma4().file()), "");
    EXPECT_NE(kind_of(small_gemma4().file(), "gpt-2"), "");
    file.model = "rwkv";
    EXPECT_EQ(kind_of(file.file()), tokenizer_of(file.file()).error().what);
}

TEST(tokenizer_gguf, a_model_that_is_not_read_is_refused_with_those_that_are) {
    small_file file;
    file.model = "rwkv";
    expect_error(tokenizer_of(file.file()), errc::incompatible,
                 "'rwkv' is not supported (supported: gpt2, llama, gemma4)");
}

TEST(tokenizer_gguf, added_tokens_are_bounded_together) {
    small_file file;
    const auto fill = [&](std::size_t last) {
        file.tokens.resize(6);
        for (int i = 0; i < 63; ++i)
            file.tokens.push_back(std::to_string(100 + i) + std::string((64 << 10) - 3, 'x'));
        file.tokens.push_back(std::string(last, 'y'));
        file.types.assign(file.tokens.size(), 1);
        for (std::size_t i = 0; i < 64; ++i) file.types[6 + i] = 4;
    };
    fill(64 << 10);
    EXPECT_TRUE(tokenizer_of(file.file()));
    file.types[0] = 3;  // seven bytes more
    expect_error(tokenizer_of(file.file()), errc::corrupt, "more than 4194304 bytes");
}

TEST(tokenizer_gguf, an_empty_token_is_an_id_without_one) {
    small_file file;
    file.tokens.push_back("");
    file.tokens.push_back("");
    file.types.push_back(1);
    file.types.push_back(3);
    file.tokens.push_back("d");
    file.types.push_back(1);
    const auto words = tokenizer_of(file.file());
    ASSERT_TRUE(words) << words.error().what;
    EXPECT_EQ(words->vocabulary(), 9);
    EXPECT_EQ(words->bytes(6), "");
    EXPECT_EQ(words->encode("abcd"), (ids{5, 8}));
}

}  // namespace semantic::engine
