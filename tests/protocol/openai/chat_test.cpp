// SPDX-License-Identifier: Apache-2.0
#include "protocol/openai/chat.hpp"

#include <gtest/gtest.h>

#include <string>

#include "tests/protocol/outline.hpp"

namespace semantic::protocol::openai {
namespace {

/// A request with `fields` in addition to the required ones. `fields` begins with a comma or is
/// empty.
std::string body(const std::string& fields = "",
                 const std::string& messages = R"([{"role":"user","content":"Hi"}])") {
    return R"({"model":"m","messages":)" + messages + fields + "}";
}

chat_request parsed(const std::string& text) {
    auto request = parse_chat(text);
    EXPECT_TRUE(request) << text << ": " << (request ? "" : request.error().message);
    return request ? std::move(*request) : chat_request{};
}

chat_request saying(const std::string& messages) { return parsed(body("", messages)); }

TEST(parse_chat, smallest_request_leaves_the_rest_to_the_model) {
    chat_request request = parsed(body());
    EXPECT_EQ(request.model, "m");
    EXPECT_FALSE(request.agent);
    EXPECT_EQ(outline(request.chat), "user: [Hi]\n");
    EXPECT_EQ(request.chat.system, "");
    EXPECT_TRUE(request.chat.tools.empty());
    EXPECT_EQ(request.max_tokens, chat_limits{}.max_tokens_max);
    EXPECT_TRUE(request.stop_sequences.empty());
    EXPECT_FALSE(request.stream);
    EXPECT_FALSE(request.include_usage);
    EXPECT_FALSE(request.sampling.temperature);
    EXPECT_FALSE(request.sampling.top_p);
    EXPECT_FALSE(request.sampling.top_k);
    EXPECT_FALSE(request.sampling.seed);
    EXPECT_FALSE(request.sampling.min_p);
    EXPECT_FALSE(request.sampling.repetition_penalty);
    EXPECT_FALSE(request.sampling.presence_penalty);
    EXPECT_FALSE(request.sampling.frequency_penalty);
    EXPECT_TRUE(request.sampling.biases.empty());
    EXPECT_FALSE(request.top_scores);
    EXPECT_EQ(request.choices, 1);
    EXPECT_FALSE(request.tool_calls_max);
}

TEST(parse_chat, reasoning_effort_is_the_nearest_of_what_there_is) {
    struct row {
        const char* effort;
        const char* expected;
        bool enabled;
    };
    for (const row& one :
         {row{"none", "low", false}, row{"minimal", "low", true}, row{"low", "low", true},
          row{"medium", "medium", true}, row{"high", "high", true}, row{"xhigh", "high", true}}) {
        auto request = parsed(body(R"(,"reasoning_effort":")" + std::string(one.effort) + "\""));
        EXPECT_EQ(request.thinking.effort, one.expected);
        EXPECT_EQ(request.thinking.enabled.value_or(true), one.enabled) << one.effort;
        EXPECT_EQ(request.take_generation({}, {}).thinking.effort, one.expected);
    }
    EXPECT_FALSE(parsed(body()).thinking.effort);
    auto refused = parse_chat(body(R"(,"reasoning_effort":"huge")"));
    ASSERT_FALSE(refused);
    EXPECT_TRUE(refused.error().message.starts_with("reasoning_effort")) << refused.error().message;
}

TEST(parse_chat, reasoning_comes_back_under_either_name_and_stands_first) {
    for (const char* name : {"reasoning_content", "reasoning"}) {
        chat_request request =
            saying(R"([{"role":"user","content":"a"},{"role":"assistant",")" + std::string(name) +
                   R"(":"hm","content":"b"},{"role":"user","content":"c"}])");
        const auto& parts = request.chat.messages.at(1).parts;
        ASSERT_EQ(parts.size(), 2u) << name;
        EXPECT_EQ(std::get<engine::thinking_part>(parts[0]).text, "hm");
    }
    auto nothing = saying(R"([{"role":"user","content":"a"},{"role":"assistant",
        "reasoning_content":null,"content":"b"},{"role":"user","content":"c"}])");
    EXPECT_EQ(nothing.chat.messages.at(1).parts.size(), 1u);
    EXPECT_FALSE(
        parse_chat(body("", R"([{"role":"assistant","reasoning_content":7,"content":"b"}])")));
}

TEST(parse_chat, an_empty_system_message_is_not_the_same_as_none) {
    chat_request request =
        saying(R"([{"role":"system","content":""},{"role":"user","content":"a"}])");
    EXPECT_EQ(request.chat.system, "");
    ASSERT_EQ(request.chat.messages.size(), 2u);
    EXPECT_EQ(request.chat.messages[0].from, engine::role::system);
}

TEST(parse_chat, every_field_arrives) {
    chat_request request =
        parsed(body(R"(,"stream":true,"stream_options":{"include_usage":true},"temperature":0.25,
               "top_p":0.5,"top_k":40,"seed":-7,"stop":["a","\n\nHuman:"],
               "max_completion_tokens":9,"tool_choice":"auto","min_p":0.125,"n":128,
               "repetition_penalty":1.5,"presence_penalty":-2,"frequency_penalty":2,
               "logit_bias":{"0":-100,"50256":100},"logprobs":true,"top_logprobs":20)"));
    EXPECT_TRUE(request.stream);
    EXPECT_TRUE(request.include_usage);
    EXPECT_EQ(request.max_tokens, 9);
    engine::generation_request wanted = request.take_generation(std::nullopt, std::nullopt);
    EXPECT_FALSE(wanted.agent);
    EXPECT_EQ(wanted.max_tokens, 9);
    EXPECT_EQ(wanted.sampling.temperature, 0.25f);
    EXPECT_EQ(wanted.sampling.top_p, 0.5f);
    EXPECT_EQ(wanted.sampling.top_k, 40);
    EXPECT_EQ(wanted.sampling.seed, static_cast<std::uint64_t>(-7));
    EXPECT_EQ(wanted.sampling.min_p, 0.125f);
    EXPECT_EQ(wanted.sampling.repetition_penalty, 1.5f);
    EXPECT_EQ(wanted.sampling.presence_penalty, -2.0f);
    EXPECT_EQ(wanted.sampling.frequency_penalty, 2.0f);
    ASSERT_EQ(wanted.sampling.biases.size(), 2u);
    EXPECT_EQ(wanted.sampling.biases[0].token, 0);
    EXPECT_EQ(wanted.sampling.biases[0].bias, -100.0f);
    EXPECT_EQ(wanted.sampling.biases[1].token, 50256);
    EXPECT_EQ(wanted.top_scores, 20);
    EXPECT_EQ(wanted.choices, 128);
    EXPECT_EQ(wanted.stop_sequences, (std::vector<std::string>{"a", "\n\nHuman:"}));
    EXPECT_EQ(outline(wanted.chat), "user: [Hi]\n");
}

TEST(parse_chat, null_means_absent) {
    chat_request request = parsed(body(
        R"(,"stream":null,"stream_options":null,"temperature":null,"top_p":null,"seed":null,
            "stop":null,"max_tokens":null,"max_completion_tokens":null,"tools":null,"n":null,
            "tool_choice":null,"parallel_tool_calls":null,"logprobs":null,"top_logprobs":null,
            "logit_bias":null,"response_format":null,"frequency_penalty":null,
            "presence_penalty":null,"min_p":null,"repetition_penalty":null,"session_id":null,
            "prompt_cache_key":null,"modalities":null,"audio":null,"functions":null,
            "web_search_options":null)"));
    EXPECT_EQ(request.max_tokens, chat_limits{}.max_tokens_max);
    EXPECT_FALSE(request.agent);
}

TEST(parse_chat, log_probabilities_alone_are_those_of_the_tokens_drawn) {
    EXPECT_EQ(parsed(body(R"(,"logprobs":true)")).top_scores, 0);
    EXPECT_FALSE(parsed(body(R"(,"logprobs":false)")).top_scores);
}

TEST(parse_chat, fields_that_change_nothing_at_their_neutral_value_pass) {
    parsed(body(R"(,"n":1,"logprobs":false,"top_logprobs":0,"logit_bias":{},"functions":[],
                    "frequency_penalty":0,"presence_penalty":0.0,"modalities":["text"],
                    "response_format":{"type":"text"})"));
}

TEST(parse_chat, fields_about_accounts_and_storage_are_ignored) {
    parsed(body(R"(,"user":"u","metadata":{"a":"b"},"store":true,"service_tier":"flex",
                    "safety_identifier":"s","prompt_cache_options":{},"reasoning_effort":"low",
                    "prediction":{"type":"content","content":"x"},"verbosity":"low","new":[{}])"));
}

TEST(parse_chat, system_that_opens_the_conversation_is_its_system_text) {
    for (const char* role : {"system", "developer"}) {
        chat_request request =
            saying(R"([{"role":")" + std::string(role) +
                   R"(","content":"Be brief."},{"role":"user","content":"Hi"}])");
        EXPECT_EQ(request.chat.system, "Be brief.");
        EXPECT_EQ(outline(request.chat), "user: [Hi]\n");
    }
}

TEST(parse_chat, the_billing_line_of_a_client_is_no_part_of_the_system_text) {
    chat_request request = saying(
        R"([{"role":"system","content":"x-anthropic-billing-header: cch=1a2b3;\nBe brief."},
            {"role":"user","content":"a"}])");
    EXPECT_EQ(request.chat.system, "Be brief.");
}

TEST(parse_chat, later_system_messages_stay_where_they_are) {
    chat_request request = saying(R"([{"role":"system","content":"A"},
        {"role":"developer","content":"B"},{"role":"user","content":"Hi"},
        {"role":"system","content":[{"type":"text","text":"C"},{"type":"text","text":"D"}]}])");
    EXPECT_EQ(request.chat.system, "A");
    EXPECT_EQ(outline(request.chat), "system: [B]\nuser: [Hi]\nsystem: [C\nD]\n");
}

TEST(parse_chat, system_message_alone_is_still_a_message) {
    chat_request request = saying(R"([{"role":"system","content":"A"}])");
    EXPECT_EQ(request.chat.system, "");
    EXPECT_EQ(outline(request.chat), "system: [A]\n");
}

TEST(parse_chat, text_parts_arrive_one_by_one) {
    chat_request request = saying(R"([{"role":"user","content":[{"type":"text","text":"a"},
        {"type":"text","text":"é"}]},{"role":"assistant","content":[{"type":"text","text":"b"},
        {"type":"refusal","refusal":"no"}]},{"role":"user","content":[]}])");
    EXPECT_EQ(outline(request.chat), "user: [a] [é]\nassistant: [b] [no]\nuser:\n");
}

TEST(parse_chat, assistant_may_have_null_content_text_and_calls) {
    chat_request request = saying(R"([{"role":"user","content":"Hi"},
        {"role":"assistant","content":null},{"role":"assistant","content":null,"refusal":"no"},
        {"role":"assistant","tool_calls":[{"id":"c1","type":"function","function":{"name":"ls",
            "arguments":"{\"path\": \"/\", \"n\": 0.5}"}},{"id":"c2","function":{"name":"pwd",
            "arguments":""}}]},
        {"role":"tool","tool_call_id":"c1","content":"a.txt"},
        {"role":"tool","tool_call_id":"c2","content":[{"type":"text","text":"x"},
            {"type":"text","text":"y"}]},
        {"role":"assistant","content":"Done.","tool_calls":[]}])");
    EXPECT_EQ(outline(request.chat),
              "user: [Hi]\nassistant: []\nassistant: [no]\n"
              "assistant: [call c1 ls {\"path\":\"/\",\"n\":0.5}] [call c2 pwd {}]\n"
              "tool: [result c1 a.txt]\ntool: [result c2 x\ny]\nassistant: [Done.]\n");
}

TEST(parse_chat, older_function_calls_and_results_are_tools_named_by_their_function) {
    chat_request request = saying(R"([{"role":"assistant","content":null,
        "function_call":{"name":"ls","arguments":"{}"}},
        {"role":"function","name":"ls","content":"a.txt"}])");
    EXPECT_EQ(outline(request.chat), "assistant: [call ls ls {}]\ntool: [result ls a.txt]\n");
}

TEST(parse_chat, tools_keep_name_description_and_schema) {
    chat_request request = parsed(body(R"(,"tools":[{"type":"function","function":{"name":"ls",
        "description":"Lists.","strict":true,"parameters":{"type":"object","properties":
        {"n":{"type":"number","default":0.5}}}}},{"type":"function","function":{"name":"pwd"}}])"));
    ASSERT_EQ(request.chat.tools.size(), 2u);
    EXPECT_EQ(request.chat.tools[0].name, "ls");
    EXPECT_EQ(request.chat.tools[0].description, "Lists.");
    EXPECT_EQ(request.chat.tools[0].parameters_json,
              R"({"type":"object","properties":{"n":{"type":"number","default":0.5}}})");
    EXPECT_EQ(request.chat.tools[1].description, "");
    EXPECT_EQ(request.chat.tools[1].parameters_json, R"({"type":"object","properties":{}})");
}

TEST(parse_chat, tools_that_take_a_text_are_functions_with_one_argument) {
    const chat_request request = parsed(
        body(R"(,"tools":[{"type":"custom","custom":{"name":"patch","description":"Patches."}},)"
             R"({"type":"function","function":{"name":"look"}}],)"
             R"("tool_choice":{"type":"custom","custom":{"name":"patch"}})"));
    ASSERT_EQ(request.chat.tools.size(), 2u);
    EXPECT_EQ(request.text_tools, std::set<std::string>{"patch"});
    EXPECT_EQ(request.chat.tools[0].description, "Patches.");
    EXPECT_EQ(request.chat.tools[0].parameters_json,
              R"({"type":"object","properties":{"input":{"type":"string"}},)"
              R"("required":["input"],"additionalProperties":false})");
    EXPECT_EQ(request.form.tools, std::vector<std::string>{"patch"});
    EXPECT_TRUE(request.left_out.empty());
}

TEST(parse_chat, a_text_tools_grammar_is_told_and_its_expression_is_a_pattern) {
    const auto tool = [](const char* syntax, const char* definition) {
        return parsed(body(R"(,"tools":[{"type":"custom","custom":{"name":"f","format":)"
                           R"({"type":"grammar","grammar":{"syntax":")" +
                           std::string(syntax) + R"(","definition":")" + definition + "\"}}}}]"))
            .chat.tools.at(0);
    };
    EXPECT_NE(tool("lark", "start: WORD").description.find("start: WORD"), std::string::npos);
    EXPECT_EQ(tool("regex", "a|b").description, "");
    EXPECT_NE(tool("regex", "a|b").parameters_json.find(R"("pattern":"^(?:a|b)$")"),
              std::string::npos);
}

TEST(parse_chat, tools_arrive_without_any_system_message) {
    chat_request request =
        parsed(body(R"(,"tools":[{"type":"function","function":{"name":"f"}}])"));
    EXPECT_EQ(request.chat.system, "");
    EXPECT_EQ(request.chat.tools.size(), 1u);
}

TEST(parse_chat, tool_choice_and_parallel_calls_bound_the_calls) {
    EXPECT_FALSE(parsed(body(R"(,"parallel_tool_calls":true)")).tool_calls_max);
    EXPECT_EQ(parsed(body(R"(,"parallel_tool_calls":false)")).tool_calls_max, 1u);
    EXPECT_EQ(parsed(body(R"(,"parallel_tool_calls":false,"tool_choice":"auto")")).tool_calls_max,
              1u);
    EXPECT_EQ(parsed(body(R"(,"parallel_tool_calls":false,"tool_choice":"none")")).tool_calls_max,
              0u);
}

TEST(parse_chat, calls_and_formats_that_are_asked_for_arrive) {
    using kind = engine::output_form::kind;
    const std::string tools =
        R"(,"tools":[{"type":"function","function":{"name":"f"}},)"
        R"({"type":"function","function":{"name":"g","strict":true,"parameters":{}}}])";
    auto forced = parsed(body(tools + R"(,"tool_choice":"required")"));
    EXPECT_EQ(forced.form.what, kind::calls);
    EXPECT_TRUE(forced.form.tools.empty());
    EXPECT_TRUE(forced.form.several_calls);
    auto named =
        parsed(body(tools + R"(,"tool_choice":{"type":"function","function":{"name":"f"}})"));
    EXPECT_EQ(named.form.tools, std::vector<std::string>{"f"});
    EXPECT_FALSE(named.form.several_calls);
    auto strict = parsed(body(tools));
    EXPECT_EQ(strict.form.what, kind::strict_calls);
    EXPECT_TRUE(strict.chat.tools[1].strict);
    EXPECT_EQ(parsed(body(tools + R"(,"tool_choice":"none")")).form.what, kind::free);
    auto object = parsed(body(R"(,"response_format":{"type":"json_object"})"));
    EXPECT_EQ(object.form.what, kind::json);
    EXPECT_EQ(object.form.schema_json, "");
    auto either = parsed(body(tools + R"(,"response_format":{"type":"json_schema",)"
                                      R"("json_schema":{"name":"n","schema":{"type":"null"}}})"));
    EXPECT_EQ(either.form.schema_json, R"({"type":"null"})");
    EXPECT_TRUE(either.form.calls_too);
    EXPECT_FALSE(either.form.is_strict);
    for (const bool is_strict : {false, true}) {
        const std::string flag = is_strict ? "true" : "false";
        auto said = parsed(body(R"(,"response_format":{"type":"json_schema","json_schema":)"
                                R"({"name":"n","schema":{},"strict":)" +
                                flag + "}}"));
        EXPECT_EQ(said.form.is_strict, is_strict);
    }
}

TEST(parse_chat, stop_may_be_one_string) {
    EXPECT_EQ(parsed(body(R"(,"stop":"END")")).stop_sequences, std::vector<std::string>{"END"});
}

TEST(parse_chat, both_spellings_of_the_token_limit_count) {
    EXPECT_EQ(parsed(body(R"(,"max_tokens":7)")).max_tokens, 7);
    EXPECT_EQ(parsed(body(R"(,"max_completion_tokens":8)")).max_tokens, 8);
    EXPECT_EQ(parsed(body(R"(,"max_completion_tokens":8,"max_tokens":8)")).max_tokens, 8);
    EXPECT_EQ(parsed(body(R"(,"max_tokens":0)")).max_tokens, 0);
}

TEST(parse_chat, session_id_names_the_agent_and_prompt_cache_key_names_nobody) {
    EXPECT_EQ(parsed(body(R"(,"session_id":"a.b:C_9-")")).agent->str(), "oai_a.b:C_9-");
    EXPECT_EQ(parsed(body(R"(,"prompt_cache_key":"k","session_id":"s")")).agent->str(), "oai_s");
    for (const std::string& key : {std::string(R"("k")"), std::string(R"("ada@example.org")"),
                                   std::string(R"("a b/c")"), '"' + std::string(300, 'k') + '"',
                                   std::string(R"("")"), std::string("7"), std::string("null")})
        EXPECT_FALSE(parsed(body(R"(,"prompt_cache_key":)" + key)).agent) << key;
}

TEST(parse_chat, whole_fields_of_a_generation_are_taken) {
    chat_request request = parsed(body(R"(,"session_id":"s")"));
    auto deadline = std::chrono::steady_clock::now();
    auto agent = request.agent;
    engine::generation_request wanted = request.take_generation(agent, deadline);
    EXPECT_EQ(wanted.agent->str(), "oai_s");
    EXPECT_EQ(wanted.deadline, deadline);
    EXPECT_EQ(request.model, "m");
}

TEST(system_fingerprint, same_state_same_name_and_another_state_another) {
    std::string name = system_fingerprint("tiny avx2 4");
    EXPECT_EQ(name.size(), 13u);
    EXPECT_TRUE(name.starts_with("fp_"));
    EXPECT_EQ(name, system_fingerprint("tiny avx2 4"));
    EXPECT_NE(name, system_fingerprint("tiny avx2 8"));
}

}  // namespace
}  // namespace semantic::protocol::openai
