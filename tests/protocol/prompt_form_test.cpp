// SPDX-License-Identifier: Apache-2.0
// Where prompts end, and which variables chat templates get, in each dialect's words.

#include "protocol/prompt_form.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "protocol/agents/generate.hpp"
#include "protocol/anthropic/messages.hpp"
#include "protocol/openai/chat.hpp"

namespace semantic::protocol {
namespace {

using engine::prompt_end;

template <class Request>
result<answer_request> sliced(const result<Request>& request) {
    if (!request) return request.error();
    return static_cast<const answer_request&>(*request);
}

struct api {
    const char* name;
    /// Messages, and further fields, each after a comma.
    std::function<result<answer_request>(const std::string&, const std::string&)> parse;
};

const std::vector<api>& apis() {
    static const std::vector<api> all{
        {"messages",
         [](const std::string& messages, const std::string& fields) {
             return sliced(anthropic::parse_messages(R"({"model":"m","max_tokens":9,"messages":[)" +
                                                     messages + "]" + fields + "}"));
         }},
        {"chat",
         [](const std::string& messages, const std::string& fields) {
             return sliced(openai::parse_chat(R"({"model":"m","messages":[)" + messages + "]" +
                                              fields + "}"));
         }},
        {"generate",
         [](const std::string& messages, const std::string& fields) {
             return sliced(
                 agents::parse_generate(R"({"messages":[)" + messages + "]" + fields + "}"));
         }},
    };
    return all;
}

const std::string question = R"({"role":"user","content":"Hi"})";
const std::string begun = question + R"(,{"role":"assistant","content":"I am"})";

/// Where the prompt ends, or what is wrong.
std::string end_of(const api& by, const std::string& messages, const std::string& fields = "") {
    auto request = by.parse(messages, fields);
    if (!request) return request.error().message;
    const prompt_end end = request->take_generation(std::nullopt, std::nullopt).chat.end;
    return end == prompt_end::answer_begins ? "begins"
           : end == prompt_end::messages    ? "messages"
                                            : "inside";
}

TEST(prompt_form, a_final_assistant_message_is_continued_as_each_vendor_has_it) {
    for (const api& by : apis()) {
        SCOPED_TRACE(by.name);
        const bool is_chat = by.name == std::string("chat");
        EXPECT_EQ(end_of(by, question), "begins");
        EXPECT_EQ(end_of(by, begun), is_chat ? "begins" : "inside");
        EXPECT_EQ(end_of(by, begun, R"(,"continue_final_message":true)"), "inside");
        EXPECT_EQ(
            end_of(by, begun, R"(,"continue_final_message":true,"add_generation_prompt":false)"),
            "inside");
        EXPECT_EQ(end_of(by, begun, R"(,"continue_final_message":false)"), "begins");
        EXPECT_EQ(end_of(by, begun, R"(,"add_generation_prompt":true)"), "begins");
        EXPECT_EQ(end_of(by, begun, R"(,"add_generation_prompt":false)"), "messages");
        EXPECT_EQ(end_of(by, question, R"(,"add_generation_prompt":false)"), "messages");
    }
    EXPECT_EQ(end_of(apis()[0], begun, R"(,"max_tokens":0)"), "begins")
        << "what answers nothing may end with an answer that is done";
}

TEST(prompt_form, what_cannot_go_on_is_refused) {
    for (const api& by : apis()) {
        SCOPED_TRACE(by.name);
        const std::string go_on = R"(,"continue_final_message":true)";
        EXPECT_EQ(end_of(by, question, go_on),
                  "continue_final_message: there is no answer to continue: the last message is not "
                  "the assistant's");
        EXPECT_EQ(end_of(by, begun, go_on + R"(,"add_generation_prompt":true)"),
                  "continue_final_message: an answer cannot go on and begin: add_generation_prompt "
                  "is true");
        EXPECT_EQ(end_of(by, begun, go_on + R"(,"guided_choice":["a"])"),
                  "continue_final_message: an answer that must have a form, or call tools, has to "
                  "begin anew");
        EXPECT_EQ(end_of(by, question, R"(,"add_generation_prompt":false,"guided_regex":"a")"),
                  "add_generation_prompt: an answer that must have a form, or call tools, has to "
                  "begin anew");
        EXPECT_EQ(end_of(by, begun, R"(,"continue_final_message":1)"),
                  "continue_final_message: expected a boolean, found a number");
    }
    const std::string tools = R"(,"tools":[{"name":"f","input_schema":{}}],"tool_choice":)";
    EXPECT_EQ(end_of(apis()[0], begun, tools + R"({"type":"any"})"),
              "messages.1: an answer that must have a form, or call tools, has to begin anew");
    EXPECT_EQ(end_of(apis()[0], begun, tools + R"({"type":"auto"})"), "inside");
    EXPECT_EQ(end_of(apis()[0], begun, R"(,"thinking":{"type":"enabled","budget_tokens":1024})"),
              "messages.1: an assistant message cannot be continued when thinking is enabled");
    EXPECT_EQ(end_of(apis()[1],
                     question + R"(,{"role":"assistant","tool_calls":[{"id":"c","function":)"
                                R"({"name":"f","arguments":"{}"}}]})",
                     R"(,"continue_final_message":true)"),
              "continue_final_message: an assistant message with tool calls cannot be continued; "
              "send their results");
}

TEST(prompt_form, tokens_are_counted_up_to_where_the_answer_goes_on) {
    const auto request =
        anthropic::parse_count_tokens(R"({"model":"m","messages":[)" + begun + "]}");
    ASSERT_TRUE(request);
    EXPECT_EQ(request->chat.end, prompt_end::inside_answer);
}

TEST(prompt_form, a_templates_variables_arrive_in_every_dialect) {
    for (const api& by : apis()) {
        SCOPED_TRACE(by.name);
        const auto request = by.parse(
            question, R"(,"chat_template_kwargs":{"persona":{"name":"Ada"},"enable_thinking":true,)"
                      R"("x":null})");
        ASSERT_TRUE(request) << request.error().message;
        EXPECT_EQ(request->chat.template_values,
                  R"({"persona":{"name":"Ada"},"enable_thinking":true})");
        EXPECT_EQ(request->thinking.enabled, true);
        EXPECT_EQ(
            by.parse(question, R"(,"chat_template_kwargs":{"thinking":false})")->thinking.enabled,
            false);
        EXPECT_EQ(by.parse(question, R"(,"chat_template_kwargs":{"reasoning_effort":"low"})")
                      ->thinking.effort,
                  "low");
        const auto refused = [&](const std::string& values) {
            const auto made = by.parse(question, R"(,"chat_template_kwargs":)" + values);
            return made ? "taken" : made.error().message;
        };
        EXPECT_EQ(refused("7"), "chat_template_kwargs: expected an object, found a number");
        EXPECT_EQ(refused(R"({"messages":[]})"),
                  "chat_template_kwargs.messages: is not the request's to set here");
        EXPECT_EQ(refused(R"({"add_generation_prompt":false})"),
                  "chat_template_kwargs.add_generation_prompt: is not the request's to set here");
        EXPECT_EQ(refused(R"({"enable_thinking":true,"thinking":false})"),
                  "chat_template_kwargs.thinking: contradicts enable_thinking");
        EXPECT_EQ(refused(R"({"enable_thinking":"yes"})"),
                  "chat_template_kwargs.enable_thinking: expected a boolean, found a string");
    }
    const auto shown =
        anthropic::parse_messages(R"({"model":"m","max_tokens":9,"messages":[)" + question +
                                  R"(],"chat_template_kwargs":{"enable_thinking":true}})");
    EXPECT_TRUE(shown->shows_thinking);
    EXPECT_FALSE(anthropic::parse_messages(
        R"({"model":"m","max_tokens":9,"messages":[)" + question +
        R"(],"thinking":{"type":"disabled"},"chat_template_kwargs":{"enable_thinking":true}})"));
}

TEST(prompt_form, variables_are_taken_at_their_limit_and_refused_one_above) {
    const auto variables = [](int count) {
        std::string values;
        for (int i = 0; i < count; ++i)
            values += (i == 0 ? "\"v" : ",\"v") + std::to_string(i) + "\":1";
        return R"(,"chat_template_kwargs":{)" + values + "}";
    };
    for (const api& by : apis()) {
        EXPECT_TRUE(by.parse(question, variables(128)));
        EXPECT_EQ(by.parse(question, variables(129)).error().message,
                  "chat_template_kwargs: may have 128 items, has 129");
    }
}

}  // namespace
}  // namespace semantic::protocol
