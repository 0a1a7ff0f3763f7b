// SPDX-License-Identifier: Apache-2.0
#include "protocol/ollama/request.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/protocol/fuzz.hpp"
#include "tests/protocol/outline.hpp"

namespace semantic::protocol::ollama {
namespace {

using parser = result<ollama_request> (*)(std::string_view, const ollama_limits&);

std::string chat_body(const std::string& messages, const std::string& fields = "") {
    return R"({"model":"m","messages":)" + messages + fields + "}";
}
std::string body_with(const std::string& fields) {
    return chat_body(R"([{"role":"user","content":"Hi"}])", "," + fields);
}

ollama_request parsed(const std::string& body, parser parse = parse_chat) {
    auto request = parse(body, {});
    EXPECT_TRUE(request) << body << ": " << (request ? "" : request.error().message);
    return request ? std::move(*request) : ollama_request{};
}

struct refusal {
    std::string body;
    errc code;
    std::string message;
    parser parse = parse_chat;
};
void expect_refused(const std::vector<refusal>& all) {
    for (const refusal& each : all) {
        auto request = each.parse(each.body, {});
        ASSERT_FALSE(request) << each.body;
        EXPECT_EQ(request.error().code, each.code) << each.body;
        EXPECT_EQ(request.error().message, each.message) << each.body;
    }
}

TEST(parse_ollama_chat, smallest_request_streams_and_leaves_the_rest_to_the_model) {
    const ollama_request request = parsed(body_with(R"("keep_alive":"5m")"));
    EXPECT_EQ(request.model, "m");
    EXPECT_TRUE(request.stream);
    EXPECT_FALSE(request.is_empty);
    EXPECT_EQ(outline(request.chat), "user: [Hi]\n");
    EXPECT_EQ(request.max_tokens, ollama_limits{}.max_tokens_max);
    EXPECT_FALSE(request.sampling.temperature);
    EXPECT_FALSE(request.thinking.enabled);
    EXPECT_EQ(request.form.what, engine::output_form::kind::free);
}

TEST(parse_ollama_chat, options_draw_and_end_the_answer_and_those_of_the_runner_are_skipped) {
    const ollama_request request = parsed(body_with(
        R"("stream":false,"options":{"temperature":0.5,"top_k":40,"top_p":0.9,"min_p":0.05,)"
        R"("seed":7,"num_predict":12,"stop":["a","b"],"repeat_penalty":1.1,"num_ctx":4096,)"
        R"("num_gpu":1,"num_thread":2,"use_mmap":true,"repeat_last_n":64,"num_keep":4})"));
    EXPECT_FALSE(request.stream);
    EXPECT_EQ(request.sampling.temperature, 0.5f);
    EXPECT_EQ(request.sampling.top_k, 40);
    EXPECT_EQ(request.sampling.seed, 7u);
    EXPECT_EQ(request.sampling.repetition_penalty, 1.1f);
    EXPECT_EQ(request.max_tokens, 12);
    EXPECT_EQ(request.stop_sequences, (std::vector<std::string>{"a", "b"}));
    for (const char* unlimited : {"-1", "-2"})
        EXPECT_EQ(parsed(body_with(R"("options":{"num_predict":)" + std::string(unlimited) + "}"))
                      .max_tokens,
                  ollama_limits{}.max_tokens_max);
}

TEST(parse_ollama_chat, results_belong_to_calls_by_id_by_name_or_by_turn) {
    const std::string call = R"({"function":{"name":"f","arguments":{"x":1}}})";
    const std::string other = R"({"function":{"name":"g"}})";
    const std::string named = R"({"id":"c9","function":{"name":"f","arguments":{}}})";
    const ollama_request request =
        parsed(chat_body(R"([{"role":"user","content":"Hi"},{"role":"assistant","thinking":"hm",)"
                         R"("content":"","tool_calls":[)" +
                         call + "," + other + "," + call + "," + named +
                         R"(]},{"role":"tool","tool_name":"g","content":"G"},)"
                         R"({"role":"tool","tool_call_id":"c9","content":"N"},)"
                         R"({"role":"tool","tool_name":"f","content":"F"},)"
                         R"({"role":"tool","content":"last"}])"));
    EXPECT_EQ(outline(request.chat),
              "user: [Hi]\n"
              "assistant: [thinking hm] [call call_0 f {\"x\":1}] [call call_1 g {}] "
              "[call call_2 f {\"x\":1}] [call c9 f {}]\n"
              "tool: [result call_1 G]\n"
              "tool: [result c9 N]\n"
              "tool: [result call_0 F]\n"
              "tool: [result call_2 last]\n");
}

TEST(parse_ollama_chat, system_text_that_opens_a_conversation_is_its_system_text) {
    const ollama_request request =
        parsed(chat_body(R"([{"role":"system","content":"S"},{"role":"user","content":"Hi"}])"));
    EXPECT_EQ(request.chat.system, "S");
    EXPECT_EQ(outline(request.chat), "user: [Hi]\n");
}

TEST(parse_ollama_chat, format_and_think_say_what_the_answer_is) {
    using kind = engine::output_form::kind;
    EXPECT_EQ(parsed(body_with(R"("format":"json")")).form.what, kind::json);
    EXPECT_EQ(parsed(body_with(R"("format":"")")).form.what, kind::free);
    EXPECT_EQ(parsed(body_with(R"("format":{"type":"object"})")).form.schema_json,
              R"({"type":"object"})");
    EXPECT_EQ(parsed(body_with(R"("think":true)")).thinking.enabled, true);
    EXPECT_EQ(parsed(body_with(R"("think":false)")).thinking.enabled, false);
    EXPECT_EQ(parsed(body_with(R"("think":"low")")).thinking.effort, "low");
}

TEST(parse_ollama_chat, no_message_asks_nothing) {
    EXPECT_TRUE(parsed(R"({"model":"m"})").is_empty);
    EXPECT_TRUE(parsed(chat_body("[]", R"(,"keep_alive":0)")).is_empty);
    EXPECT_TRUE(parsed(R"({"model":"m"})", parse_generate).is_empty);
}

TEST(parse_ollama_chat, what_is_wrong_is_400_with_the_path) {
    expect_refused({
        {"{}", errc::missing_field, "model: field required"},
        {R"({"model":7})", errc::bad_value, "model: expected a string, found a number"},
        {chat_body("[7]"), errc::bad_value, "messages.0: expected an object, found a number"},
        {chat_body(R"([{"role":"cat","content":""}])"), errc::bad_value,
         R"(messages.0.role: must be "system", "user", "assistant" or "tool", is "cat")"},
        {chat_body(R"([{"role":"user"}])"), errc::missing_field,
         "messages.0.content: field required"},
        {chat_body(R"([{"role":"user","content":"","images":["AA=="]}])"), errc::unsupported,
         "messages.0.images: Could not process image: this model takes text only"},
        {body_with(R"("format":"xml")"), errc::bad_value,
         R"(format: must be "json" or a JSON schema, is "xml")"},
        {body_with(R"("logprobs":true)"), errc::unsupported,
         "logprobs: is not supported here; /v1/chat/completions has it"},
        {body_with(R"("options":{"mirostat":2})"), errc::unsupported,
         "options.mirostat: is not supported"},
        {body_with(R"("options":{"num_predict":-3})"), errc::bad_value,
         "options.num_predict: must be between -2 and 1000000, is -3"},
        {body_with(R"("options":{"num_predict":1000001})"), errc::bad_value,
         "options.num_predict: must be between -2 and 1000000, is 1000001"},
    });
}

TEST(parse_ollama_chat, one_message_more_than_the_limit_is_refused) {
    ollama_limits limits;
    limits.messages_max = 2;
    const std::string hi = R"({"role":"user","content":"Hi"})";
    EXPECT_TRUE(parse_chat(chat_body("[" + hi + "," + hi + "]"), limits));
    EXPECT_FALSE(parse_chat(chat_body("[" + hi + "," + hi + "," + hi + "]"), limits));
}

TEST(parse_ollama_generate, a_prompt_is_a_users_message_or_stands_as_it_is) {
    const ollama_request asked =
        parsed(R"({"model":"m","prompt":"Hi","system":"S","context":[]})", parse_generate);
    EXPECT_EQ(asked.chat.system, "S");
    EXPECT_EQ(outline(asked.chat), "user: [Hi]\n");
    EXPECT_FALSE(asked.text);
    const ollama_request raw =
        parsed(R"({"model":"m","prompt":"The dog","raw":true})", parse_generate);
    EXPECT_EQ(raw.text, "The dog");
}

TEST(parse_ollama_generate, what_is_not_done_is_named) {
    expect_refused({
        {R"({"model":"m","prompt":"a","suffix":"b"})", errc::unsupported,
         "suffix: this server continues texts; it does not fill them in", parse_generate},
        {R"({"model":"m","prompt":"a","template":"x"})", errc::unsupported,
         "template: the model's own chat template is used; send raw with a prompt", parse_generate},
        {R"({"model":"m","prompt":"a","context":[1]})", errc::unsupported,
         "context: token ids are not taken back; send the messages to /api/chat, whose memory is "
         "found by them",
         parse_generate},
        {R"({"model":"m","prompt":"a","images":["AA=="]})", errc::unsupported,
         "images: Could not process image: this model takes text only", parse_generate},
    });
}

TEST(parse_ollama_chat, tools_may_be_demanded_as_chat_completions_demand_them) {
    const auto with_choice = [](const std::string& choice) {
        return parse_chat(chat_body(
            R"([{"role":"user","content":"x"}])",
            R"(,"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":)" + choice));
    };
    using kind = engine::output_form::kind;
    EXPECT_EQ(with_choice(R"("auto")")->form.what, kind::free);
    EXPECT_EQ(with_choice(R"("required")")->form.what, kind::calls);
    const auto named = with_choice(R"({"type":"function","function":{"name":"f"}})");
    EXPECT_EQ(named->form.what, kind::calls);
    EXPECT_EQ(named->form.tools, std::vector<std::string>{"f"});
    EXPECT_EQ(with_choice(R"({"type":"function","function":{"name":"g"}})").error().code,
              errc::bad_value);
    EXPECT_EQ(with_choice(R"("maybe")").error().code, errc::bad_value);
}

TEST(parse_ollama_model_name, older_clients_call_it_name) {
    EXPECT_EQ(parse_model_name(R"({"model":"a","name":"b"})").value(), "a");
    EXPECT_EQ(parse_model_name(R"({"name":"b"})").value(), "b");
    EXPECT_EQ(parse_model_name("{}").error().message, "model: field required");
    EXPECT_EQ(without_latest("a:latest"), "a");
    EXPECT_EQ(without_latest("a:7b"), "a:7b");
}

const std::vector<std::string> seeds{
    chat_body(R"([{"role":"system","content":"S"},{"role":"user","content":"é"},)"
              R"({"role":"assistant","content":"","tool_calls":[{"id":"c","function":)"
              R"({"name":"f","arguments":{"a":[1,2.5e3]}}}]},)"
              R"({"role":"tool","tool_name":"f","content":"r"}])",
              R"(,"tools":[{"type":"function","function":{"name":"f","parameters":)"
              R"({"type":"object"}}}],"options":{"num_predict":5,"stop":"x"},"think":"low")"),
    body_with(R"("format":{"type":"object"},"stream":false,"keep_alive":-1)"),
};

std::optional<failure> check(const std::string& body) {
    auto request = parse_chat(body);
    if (!request) return request.error();
    EXPECT_FALSE(request->model.empty()) << body;
    EXPECT_EQ(request->is_empty, request->chat.messages.empty()) << body;
    return std::nullopt;
}

TEST(parse_ollama_chat, damaged_bodies_are_a_request_or_an_error) {
    expect_damaged_bodies_are_answered(seeds, dialect::ollama, check);
}

TEST(parse_ollama_chat, values_of_the_wrong_kind_are_a_request_or_an_error) {
    expect_other_values_are_answered(seeds, dialect::ollama, check);
}

}  // namespace
}  // namespace semantic::protocol::ollama
