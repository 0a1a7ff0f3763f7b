// SPDX-License-Identifier: Apache-2.0
// What a request brings is text, whichever API it comes through and whatever special tokens it
// spells: bodies of each API, through its parser, every family's renderer and every vocabulary.

#include <boost/json.hpp>

#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "engine/text/template/chat_template.hpp"
#include "engine/text/template/template_families.hpp"
#include "protocol/agents/generate.hpp"
#include "protocol/anthropic/messages.hpp"
#include "protocol/openai/chat.hpp"
#include "protocol/responses/request.hpp"
#include "tests/support/vocabularies.hpp"

namespace semantic::server {
namespace {

namespace json = boost::json;

/// Which of the places that not every family has words for the body fills.
struct places {
    bool system = false;
    bool tools = false;
};

/// A call's name may be as long as a tool's.
std::string name_with(const std::string& said) { return said.size() < 100 ? "f" + said : "f"; }

json::object schema_with(const std::string& said) {
    return {{"type", "object"},
            {"properties",
             {{said, {{"type", "string"}, {"description", said}, {"enum", json::array{said}}}}}}};
}

json::object arguments_with(const std::string& said) {
    return {{said, json::array{said, {{said, 1}}}}};
}

json::object text_block(const std::string& said) { return {{"type", "text"}, {"text", said}}; }

/// A Messages body, and one for /v1/agents/{id}/generate, that says it in every place it has.
json::object messages_body(const std::string& said, places where) {
    json::array asked{
        text_block("Q " + said),
        {{"type", "document"},
         {"title", said},
         {"context", said},
         {"source", {{"type", "text"}, {"media_type", "text/plain"}, {"data", said}}}},
        {{"type", "search_result"},
         {"title", said},
         {"source", said},
         {"content", json::array{text_block(said)}}}};
    json::array answered{{{"type", "thinking"}, {"thinking", "T " + said}, {"signature", "x"}},
                         text_block("A " + said)};
    json::array messages{{{"role", "user"}, {"content", std::move(asked)}},
                         {{"role", "assistant"}, {"content", std::move(answered)}}};
    json::object body{{"model", "m"}, {"max_tokens", 8}};
    if (where.system) body["system"] = json::array{text_block("S " + said)};
    if (where.tools) {
        body["tools"] = json::array{
            {{"name", "f"}, {"description", said}, {"input_schema", schema_with(said)}}};
        messages.push_back({{"role", "user"}, {"content", said}});
        messages.push_back({{"role", "assistant"},
                            {"content", json::array{{{"type", "tool_use"},
                                                     {"id", "c1" + name_with(said)},
                                                     {"name", name_with(said)},
                                                     {"input", arguments_with(said)}}}}});
        messages.push_back({{"role", "user"},
                            {"content", json::array{{{"type", "tool_result"},
                                                     {"tool_use_id", "c1" + name_with(said)},
                                                     {"content", "R " + said}}}}});
        messages.push_back({{"role", "assistant"}, {"content", "A " + said}});
    }
    messages.push_back({{"role", "user"}, {"content", said}});
    body["messages"] = std::move(messages);
    return body;
}

json::object chat_body(const std::string& said, places where) {
    json::array messages;
    if (where.system) messages.push_back({{"role", "developer"}, {"content", "S " + said}});
    messages.push_back({{"role", "user"}, {"content", json::array{text_block("Q " + said)}}});
    messages.push_back({{"role", "assistant"},
                        {"content", "A " + said},
                        {"name", said},
                        {"reasoning_content", "T " + said}});
    messages.push_back({{"role", "user"}, {"content", said}, {"name", said}});
    json::object body{{"model", "m"}};
    if (where.tools) {
        body["tools"] = json::array{
            {{"type", "function"},
             {"function",
              {{"name", "f"}, {"description", said}, {"parameters", schema_with(said)}}}}};
        messages.push_back(
            {{"role", "assistant"},
             {"content", nullptr},
             {"tool_calls",
              json::array{{{"id", "c1" + name_with(said)},
                           {"type", "function"},
                           {"function",
                            {{"name", name_with(said)},
                             {"arguments", json::serialize(arguments_with(said))}}}}}}});
        messages.push_back(
            {{"role", "tool"}, {"tool_call_id", "c1" + name_with(said)}, {"content", "R " + said}});
        messages.push_back({{"role", "assistant"}, {"content", json::array{text_block(said)}}});
        messages.push_back({{"role", "user"}, {"content", said}});
    }
    body["messages"] = std::move(messages);
    return body;
}

json::object response_body(const std::string& said, places where) {
    const auto message = [](const char* role, const char* type, const std::string& text) {
        return json::object{{"type", "message"},
                            {"role", role},
                            {"content", json::array{{{"type", type}, {"text", text}}}}};
    };
    json::array input{
        message("user", "input_text", "Q " + said),
        {{"type", "reasoning"},
         {"summary", json::array{{{"type", "summary_text"}, {"text", said}}}},
         {"content", json::array{{{"type", "reasoning_text"}, {"text", "T " + said}}}}},
        message("assistant", "output_text", "A " + said),
        message("user", "input_text", said)};
    json::object body{{"model", "m"}};
    if (where.system) {
        body["instructions"] = "I " + said;
        input.insert(input.begin(), message("developer", "input_text", "D " + said));
    }
    if (where.tools) {
        body["tools"] = json::array{
            {{"type", "function"},
             {"name", "f"},
             {"description", said},
             {"parameters", schema_with(said)}},
            {{"type", "custom"},
             {"name", "g"},
             {"description", said},
             {"format", {{"type", "grammar"}, {"syntax", said}, {"definition", said}}}}};
        input.push_back({{"type", "function_call"},
                         {"call_id", "c1" + name_with(said)},
                         {"name", name_with(said)},
                         {"arguments", json::serialize(arguments_with(said))}});
        input.push_back({{"type", "function_call_output"},
                         {"call_id", "c1" + name_with(said)},
                         {"output", "R " + said}});
        input.push_back({{"type", "custom_tool_call"},
                         {"call_id", "c2"},
                         {"name", name_with(said)},
                         {"input", said}});
        input.push_back(
            {{"type", "custom_tool_call_output"}, {"call_id", "c2"}, {"output", "R " + said}});
    }
    body["input"] = std::move(input);
    return body;
}

/// Returns: nothing where the API refuses the body.
using asked = std::function<std::optional<engine::conversation>(const std::string&, places)>;

template <typename body_of, typename parser>
asked api(body_of body, parser parse) {
    return [=](const std::string& said, places where) -> std::optional<engine::conversation> {
        auto request = parse(json::serialize(body(said, where)));
        EXPECT_TRUE(request) << request.error().message;
        if (!request) return std::nullopt;
        return std::move(request->chat);
    };
}

const std::map<std::string, asked>& apis() {
    using namespace protocol;
    static const std::map<std::string, asked> all{
        {"/v1/messages",
         api(messages_body, [](const auto& body) { return anthropic::parse_messages(body); })},
        {"/v1/messages/count_tokens",
         api(messages_body, [](const auto& body) { return anthropic::parse_count_tokens(body); })},
        {"/v1/chat/completions",
         api(chat_body, [](const auto& body) { return openai::parse_chat(body); })},
        {"/v1/responses",
         api(response_body, [](const auto& body) { return responses::parse_response(body); })},
        {"/v1/agents/{id}/generate",
         api(messages_body, [](const auto& body) { return agents::parse_generate(body); })}};
    return all;
}

/// Returns: how many of the prompts could be rendered.
int expect_no_forged_token(const std::string& path, const asked& ask,
                           const engine::tokenizer& words, const engine::chat_template& chat,
                           const std::vector<std::string>& spelled) {
    int rendered = 0;
    for (const places where :
         {places{}, places{.system = true}, places{.tools = true}, places{true, true}}) {
        const auto plain = chat.render_marked(*ask("nothing", where));
        if (!plain) continue;  // the family has no words for it
        const auto written = tests::control_ids(words, *plain);
        for (const std::string& said : spelled) {
            const auto text = chat.render_marked(*ask(said, where));
            if (!text) continue;
            ++rendered;
            EXPECT_EQ(tests::control_ids(words, *text), written)
                << path << " " << chat.family() << ": " << said;
        }
    }
    return rendered;
}

TEST(forged_requests, no_special_token_of_any_vocabulary_comes_through_any_api_in_any_family) {
    int rendered = 0;
    for (const char* name : tests::vocabularies) {
        const engine::tokenizer words = tests::vocabulary(name);
        const auto spelled = tests::spelled_tokens(words, true);
        for (const engine::template_family& family : engine::template_families()) {
            const auto chat = *engine::chat_template::make(std::string(family.name));
            for (const auto& [path, ask] : apis()) {
                const int count = expect_no_forged_token(path, ask, words, chat, spelled);
                EXPECT_GT(count, 0) << path << " " << family.name;
                rendered += count;
            }
        }
    }
    RecordProperty("prompts", rendered);
    std::printf("%d prompts of %zu APIs\n", rendered, apis().size());
}

}  // namespace
}  // namespace semantic::server
