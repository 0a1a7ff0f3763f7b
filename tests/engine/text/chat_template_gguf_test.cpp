// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/text/template/chat_template.hpp"
#include "storage/files/gguf.hpp"
#include "tests/engine/text/family_sources.hpp"
#include "tests/support/gguf_writer.hpp"

namespace semantic::engine {

namespace {

using storage::errc;
using storage::gguf_view;
using ::testing::HasSubstr;
using tests::gguf_writer;

const std::string chatml = chatml_source;

gguf_writer file_of(std::string_view architecture, std::string_view source) {
    gguf_writer file;
    file.pair("general.architecture", architecture)
        .pair("tokenizer.ggml.tokens", std::vector<std::string>{"<unk>", "<s>"});
    if (!source.empty()) file.pair("tokenizer.chat_template", source);
    return file;
}

storage::result<chat_template> template_of(const gguf_writer& file, std::string_view family = {}) {
    const std::string bytes = file.bytes();
    const auto view = gguf_view::parse(std::as_bytes(std::span(bytes.data(), bytes.size())));
    EXPECT_TRUE(view) << (view ? "" : view.error().what);
    return chat_template::from_gguf(*view, family);
}

}  // namespace

TEST(chat_template_gguf, a_family_is_recognised_by_the_template_in_the_metadata) {
    const auto made = template_of(file_of("llama", chatml));
    ASSERT_TRUE(made) << made.error().what;
    EXPECT_EQ(made->family(), "chatml");
    EXPECT_EQ(made->assumed(), "");
    EXPECT_EQ(template_of(file_of("llama", "### Instruction:")).error().code, errc::incompatible);
}

TEST(chat_template_gguf, the_first_token_that_the_file_names_counts) {
    const std::string llama = *source_of(*find_template_family("llama3.0"));
    EXPECT_EQ(template_of(file_of("llama", llama))->family(), "llama3.0");
    // The family begins with <|begin_of_text|>, and this file with <s>.
    EXPECT_EQ(
        template_of(file_of("llama", llama).pair("tokenizer.ggml.bos_token_id", std::uint32_t{1}))
            ->family(),
        "jinja");
}

TEST(chat_template_gguf, a_named_family_goes_before_what_the_file_says) {
    EXPECT_EQ(template_of(file_of("llama", chatml), "gemma3")->family(), "gemma3");
    EXPECT_EQ(template_of(file_of("llama", chatml), "vicuna").error().code, errc::bad_value);
}

TEST(chat_template_gguf, the_architecture_decides_only_where_it_is_sure_and_says_so) {
    const auto base = template_of(file_of("gemma3", ""));
    ASSERT_TRUE(base) << base.error().what;
    EXPECT_EQ(base->family(), "gemma3");
    EXPECT_EQ(base->assumed(), "the model has no chat template");
    const auto own = template_of(file_of("gpt-oss", "<|channel|> in somebody's own words"));
    ASSERT_TRUE(own) << own.error().what;
    EXPECT_EQ(own->family(), "harmony");
    EXPECT_EQ(own->assumed(), "its own is not known");
    for (const char* architecture : {"llama", "qwen2", "qwen3moe", "deepseek2"}) {
        const auto made = template_of(file_of(architecture, ""));
        ASSERT_FALSE(made) << architecture;
        EXPECT_EQ(made.error().code, errc::incompatible);
        EXPECT_THAT(made.error().what, HasSubstr("tokenizer.chat_template: has no chat_template, "
                                                 "and general.architecture '" +
                                                 std::string(architecture)));
        EXPECT_THAT(made.error().what, HasSubstr("--chat-template"));
    }
}

TEST(chat_template_gguf, templates_of_other_names_are_told_where_there_is_no_default) {
    gguf_writer file = file_of("llama", "");
    file.pair("tokenizer.chat_templates", std::vector<std::string>{"rag", "tool_use"})
        .pair("tokenizer.chat_template.rag", std::string_view(chatml));
    EXPECT_THAT(template_of(file).error().what, HasSubstr("(there are: rag, tool_use)"));
    file.pair("tokenizer.chat_template", std::string_view(chatml));
    EXPECT_EQ(template_of(file)->family(), "chatml");
}

TEST(chat_template_gguf, the_template_for_tools_is_taken_where_there_are_tools) {
    const std::string tools = "[tools]{{ tools | tojson }}{{ messages[0].content }}";
    conversation chat;
    chat.messages.push_back({role::user, {text_part{"Hi"}}});
    conversation offered = chat;
    offered.tools = {{"look", "", "{}"}};
    for (const bool is_listed : {true, false}) {
        gguf_writer file = file_of("llama", chatml);
        file.pair("tokenizer.chat_template.tool_use", std::string_view(tools));
        if (is_listed) file.pair("tokenizer.chat_templates", std::vector<std::string>{"tool_use"});
        const auto made = template_of(file);
        ASSERT_TRUE(made) << made.error().what;
        EXPECT_THAT(*made->render(chat), HasSubstr("<|im_start|>user\nHi"));
        EXPECT_THAT(*made->render(offered), ::testing::StartsWith("[tools][{"));
    }
    gguf_writer alone = file_of("llama", "");
    alone.pair("tokenizer.chat_template.tool_use", std::string_view(tools));
    EXPECT_THAT(*template_of(alone)->render(offered), ::testing::StartsWith("[tools][{"));
}

TEST(chat_template_gguf, a_value_of_the_wrong_type_is_corrupt_by_key) {
    for (const char* key : {"tokenizer.chat_template", "tokenizer.chat_templates",
                            "general.architecture", "tokenizer.ggml.tokens"}) {
        gguf_writer file;
        const auto made = template_of(file.pair(key, std::uint32_t{7}));
        ASSERT_FALSE(made) << key;
        EXPECT_EQ(made.error().code, errc::corrupt);
        EXPECT_THAT(made.error().what, HasSubstr(std::string(key) + " is a whole number, not "));
    }
    gguf_writer file;
    EXPECT_EQ(template_of(file.pair("tokenizer.ggml.bos_token_id", "x")).error().code,
              errc::corrupt);
}

}  // namespace semantic::engine
