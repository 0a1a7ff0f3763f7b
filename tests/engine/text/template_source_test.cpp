// SPDX-License-Identifier: Apache-2.0
// Every way in which published models state their templates.

#include "engine/text/template/source/template_source.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "engine/text/template/chat_template.hpp"
#include "tests/support/temp_dir.hpp"

namespace semantic::engine {
namespace {

using ::testing::HasSubstr;
using files = std::vector<std::pair<std::string, std::string>>;

template_source source_of(const files& all) {
    const semantic::tests::temp_dir model;
    for (const auto& [name, text] : all) {
        const std::filesystem::path path = model / name;
        std::filesystem::create_directories(path.parent_path());
        std::ofstream(path) << text;
    }
    auto read = read_template_source(model.path());
    EXPECT_TRUE(read) << (read ? "" : read.error().what);
    return read ? *std::move(read) : template_source();
}

void expect_texts(const files& all, const std::string& text, const std::string& tools) {
    const template_source source = source_of(all);
    EXPECT_EQ(source.text, text);
    EXPECT_EQ(source.tools_text, tools);
}

constexpr const char* named = R"([{"name":"default","template":"D"},{"name":"rag","template":"R"},
                                  {"name":"tool_use","template":"T"}])";

std::string config_of(const std::string& templates) {
    return R"({"bos_token":"<s>","eos_token":{"content":"</s>"},"chat_template":)" + templates +
           "}";
}

TEST(template_source, one_text_or_several_with_names) {
    expect_texts({{"tokenizer_config.json", config_of(R"("one")")}}, "one", "");
    expect_texts({{"tokenizer_config.json", config_of(named)}}, "D", "T");
    expect_texts({{"tokenizer_config.json", config_of(R"({"default":"D","tool_use":"T"})")}}, "D",
                 "T");
    expect_texts({{"chat_template.json", config_of(R"("one")")}}, "one", "");
    expect_texts({{"chat_template.json", config_of(named)}}, "D", "T");
    const template_source source = source_of({{"tokenizer_config.json", config_of(named)}});
    EXPECT_EQ(source.bos, "<s>");
    EXPECT_EQ(source.eos, "</s>");
}

TEST(template_source, files_beside_the_tokenizer) {
    expect_texts({{"chat_template.jinja", "J"}}, "J", "");
    expect_texts({{"chat_template.jinja", "J"},
                  {"additional_chat_templates/tool_use.jinja", "A"},
                  {"additional_chat_templates/rag.jinja", "R"},
                  {"additional_chat_templates/notes.txt", "N"}},
                 "J", "A");
    // A file of its own goes before what the configuration says, for tools too.
    expect_texts({{"chat_template.jinja", "J"}, {"tokenizer_config.json", config_of(named)}}, "J",
                 "");
    expect_texts({{"tokenizer_config.json", config_of(R"("one")")},
                  {"additional_chat_templates/tool_use.jinja", "A"}},
                 "one", "A");
    expect_texts({{"tokenizer_config.json", config_of(R"("one")")},
                  {"chat_template.json", config_of(R"("two")")}},
                 "two", "");
}

TEST(template_source, the_one_for_tools_stands_in_for_a_default_and_others_are_named) {
    expect_texts({{"tokenizer_config.json", config_of(R"([{"name":"tool_use","template":"T"}])")}},
                 "T", "");
    const template_source source =
        source_of({{"tokenizer_config.json", config_of(R"([{"name":"rag","template":"R"}])")}});
    EXPECT_EQ(source.text, "");
    EXPECT_EQ(source.others, "rag");
}

TEST(template_source, the_template_for_tools_is_taken_where_there_are_tools) {
    const semantic::tests::temp_dir model;
    std::filesystem::create_directories(model / "additional_chat_templates");
    std::ofstream(model / "chat_template.jinja")
        << "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}";
    std::ofstream(model / "additional_chat_templates/tool_use.jinja")
        << "{{ strftime_now('%d') }}{{ tools | tojson }}{% for m in messages %}<{{ m.role }}>"
           "{{ m.content }}{% for c in m.tool_calls %}<tool_call>{{ c.function.name }}</tool_call>"
           "{% endfor %}{% endfor %}";
    const auto made = chat_template::load(model.path());
    ASSERT_TRUE(made) << made.error().what;
    conversation chat;
    chat.messages.push_back({role::user, {text_part{"Hi"}}});
    EXPECT_EQ(*made->render(chat), "[user]Hi");
    chat.tools = {{"look", "", "{}"}};
    EXPECT_THAT(*made->render(chat), HasSubstr("}}]<user>Hi"));
    // Its forms of calls, and that it prints the day, are the model's.
    EXPECT_EQ(made->answers().calls, call_format::hermes);
    EXPECT_TRUE(made->prints_day());
    EXPECT_THAT(made->identity(), HasSubstr("tools: "));
}

}  // namespace
}  // namespace semantic::engine
