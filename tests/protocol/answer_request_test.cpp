// SPDX-License-Identifier: Apache-2.0
#include "protocol/answer_request.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "protocol/agents/generate.hpp"
#include "protocol/anthropic/messages.hpp"
#include "protocol/openai/chat.hpp"

namespace semantic::protocol {
namespace {

using parsed = result<answer_request>;

template <class Request>
parsed sliced(const result<Request>& request) {
    if (!request) return request.error();
    return static_cast<const answer_request&>(*request);
}

struct api {
    const char* name;
    std::function<parsed(const std::string&)> parse_fields;  // further fields, each after a comma
    const char* max_tokens;  // what a request has to say of its limit
};

const std::vector<api>& apis() {
    static const std::string hi = R"("messages":[{"role":"user","content":"Hi"}])";
    static const std::vector<api> all{
        {"messages",
         [](const std::string& fields) {
             return sliced(anthropic::parse_messages(R"({"model":"m",)" + hi + fields + "}"));
         },
         R"(,"max_tokens":50)"},
        {"chat",
         [](const std::string& fields) {
             return sliced(openai::parse_chat(R"({"model":"m",)" + hi + fields + "}"));
         },
         ""},
        {"generate",
         [](const std::string& fields) {
             return sliced(agents::parse_generate(R"({"prompt":"Hi")" + fields + "}"));
         },
         ""},
    };
    return all;
}

answer_request taken(const api& by, const std::string& fields) {
    auto request = by.parse_fields(fields);
    EXPECT_TRUE(request) << by.name << " " << fields << ": " << request.error().message;
    return request ? std::move(*request) : answer_request{};
}

failure refused(const api& by, const std::string& fields) {
    auto request = by.parse_fields(by.max_tokens + fields);
    EXPECT_FALSE(request) << by.name << " " << fields;
    return request ? failure{errc::internal, "taken", {}, {}} : request.error();
}

TEST(answer_request, sentinels_of_other_servers_switch_off_what_they_stand_in) {
    for (const api& by : apis()) {
        SCOPED_TRACE(by.name);
        auto off = taken(by, R"(,"max_tokens":-1,"top_k":-1,"top_p":0,"seed":-1)");
        EXPECT_EQ(off.max_tokens, request_limits{}.max_tokens_max);
        EXPECT_EQ(off.sampling.top_k, 0);
        EXPECT_GT(off.sampling.top_p, 0.0f);
        EXPECT_LT(off.sampling.top_p, 1e-30f) << "so little that the likeliest token has it all";
        EXPECT_FALSE(off.sampling.seed) << "a new one each time";
        EXPECT_EQ(refused(by, R"(,"max_tokens":-2)").message,
                  "max_tokens: must be between -1 and 1000000, is -2");
        EXPECT_EQ(refused(by, R"(,"top_k":-2)").message,
                  "top_k: must be between -1 and 2147483647, is -2");
        EXPECT_EQ(refused(by, R"(,"top_p":-0.5)").message,
                  "top_p: must be between 0 and 1, is -0.5");
    }
    const api& chat = apis()[1];
    EXPECT_TRUE(taken(chat, R"(,"stop":"")").stop_sequences.empty());
    EXPECT_EQ(taken(chat, R"(,"stop":["","a",""])").stop_sequences, std::vector<std::string>{"a"});
    EXPECT_EQ(taken(apis()[0], R"(,"max_tokens":5,"stop_sequences":["","a"])").stop_sequences,
              std::vector<std::string>{"a"});
}

TEST(answer_request, a_list_of_stops_is_taken_at_its_limit_and_refused_one_above) {
    for (const api& by : apis())
        for (const char* key : {"stop", "stop_sequences"}) {
            const bool is_read = by.name == std::string("generate") ||
                                 (by.name == std::string("chat")) == (key == std::string("stop"));
            if (!is_read) continue;
            auto list = [&](int count) {
                std::string items;
                for (int i = 0; i < count; ++i) items += i == 0 ? "\"x\"" : ",\"x\"";
                return std::string(",\"") + key + "\":[" + items + "]";
            };
            EXPECT_EQ(taken(by, by.max_tokens + list(64)).stop_sequences.size(), 64u);
            EXPECT_EQ(refused(by, list(65)).message,
                      std::string(key) + ": may have 64 items, has 65");
        }
}

TEST(answer_request, what_ends_an_answer_arrives) {
    for (const api& by : apis()) {
        SCOPED_TRACE(by.name);
        auto request = taken(by, R"(,"max_tokens":9,"min_tokens":9,"ignore_eos":true,)"
                                 R"("stop_token_ids":[7,0],"repeat_penalty":1.25)");
        EXPECT_EQ(request.sampling.repetition_penalty, 1.25f);
        auto wanted = request.take_generation(std::nullopt, std::nullopt);
        EXPECT_EQ(wanted.ending.min_tokens, 9);
        EXPECT_TRUE(wanted.ending.ignores_end);
        EXPECT_EQ(wanted.ending.stop_tokens, (std::vector<engine::token_id>{7, 0}));
        EXPECT_EQ(by.parse_fields(R"(,"max_tokens":9,"min_tokens":10)").error().message,
                  "min_tokens: must not be more than max_tokens, which is 9");
        EXPECT_EQ(refused(by, R"(,"min_tokens":-1)").path, "min_tokens");
        EXPECT_EQ(refused(by, R"(,"ignore_eos":1)").path, "ignore_eos");
        EXPECT_EQ(refused(by, R"(,"stop_token_ids":7)").path, "stop_token_ids");
        EXPECT_EQ(refused(by, R"(,"stop_token_ids":[-1])").path, "stop_token_ids.0");
        EXPECT_EQ(refused(by, R"(,"repeat_penalty":0)").path, "repeat_penalty");
        EXPECT_EQ(refused(by, R"(,"repetition_penalty":1.5,"repeat_penalty":1.25)").path,
                  "repeat_penalty");
        EXPECT_EQ(taken(by, std::string(by.max_tokens) +
                                R"(,"repetition_penalty":1.5,"repeat_penalty":1.5)")
                      .sampling.repetition_penalty,
                  1.5f);
    }
}

TEST(answer_request, stop_tokens_are_taken_at_their_limit_and_refused_one_above) {
    auto list = [](int count) {
        std::string items = "0";
        for (int i = 1; i < count; ++i) items += ",0";
        return R"(,"stop_token_ids":[)" + items + "]";
    };
    for (const api& by : apis()) {
        EXPECT_EQ(taken(by, by.max_tokens + list(1024)).ending.stop_tokens.size(), 1024u);
        EXPECT_EQ(refused(by, list(1025)).message, "stop_token_ids: may have 1024 items, has 1025");
    }
}

TEST(answer_request, n_predict_is_another_name_of_the_token_limit) {
    for (const api& by : apis()) {
        SCOPED_TRACE(by.name);
        EXPECT_EQ(taken(by, R"(,"n_predict":7)").max_tokens, 7);
        EXPECT_EQ(taken(by, R"(,"n_predict":-1)").max_tokens, request_limits{}.max_tokens_max);
        EXPECT_EQ(taken(by, R"(,"n_predict":7,"max_tokens":7)").max_tokens, 7);
        failure f = by.parse_fields(R"(,"n_predict":7,"max_tokens":8)").error();
        EXPECT_EQ(f.message, "n_predict: contradicts max_tokens, which is 8; this one is 7");
        EXPECT_EQ(f.path, "n_predict");
    }
}

TEST(answer_request, fields_that_would_change_the_answer_are_refused_by_name) {
    struct row {
        const char* path;
        const char* value;
    };
    for (const row& r :
         {row{"guided_whitespace_pattern", R"(" ")"}, row{"guided_nonsense", "7"},
          row{"structured_outputs.structural_tag", R"({})"},
          row{"structured_outputs.disable_any_whitespace", "true"}, row{"lora", R"([{"id":0}])"},
          row{"chat_template", R"("{{ x }}")"}, row{"documents", R"([{"text":"x"}])"},
          row{"echo", "true"}, row{"mirostat", "2"}, row{"typical_p", "0.9"},
          row{"bad_words", R"(["x"])"}, row{"best_of", "4"}, row{"use_beam_search", "true"},
          row{"truncate_prompt_tokens", "9"}})
        for (const api& by : apis()) {
            const std::string path = r.path;
            const std::size_t dot = path.find('.');
            const std::string fields = dot == std::string::npos
                                           ? ",\"" + path + "\":" + r.value
                                           : ",\"" + path.substr(0, dot) + "\":{\"" +
                                                 path.substr(dot + 1) + "\":" + r.value + "}";
            failure f = refused(by, fields);
            EXPECT_EQ(f.code, errc::unsupported) << by.name << ": " << f.message;
            EXPECT_EQ(f.path, path) << by.name;
        }
}

TEST(answer_request, forms_of_other_servers_arrive) {
    using kind = engine::output_form::kind;
    struct row {
        const char* fields;
        kind type;
        const char* schema;
        const char* rules;
        std::vector<std::string> choices;
    };
    const std::vector<row> rows{
        {R"(,"guided_json":{"type":"null"})", kind::json, R"({"type":"null"})", "", {}},
        {R"(,"guided_json":"{\"type\":\"null\"}")", kind::json, R"({"type":"null"})", "", {}},
        {R"(,"json_schema":{"type":"null"})", kind::json, R"({"type":"null"})", "", {}},
        {R"(,"structured_outputs":{"json":{"type":"null"}})",
         kind::json,
         R"({"type":"null"})",
         "",
         {}},
        {R"(,"structured_outputs":{"json_object":true})", kind::json, "", "", {}},
        {R"(,"guided_regex":"a+")", kind::pattern, "", "a+", {}},
        {R"(,"structured_outputs":{"regex":"a+","backend":"xgrammar"})",
         kind::pattern,
         "",
         "a+",
         {}},
        {R"(,"guided_choice":["a","b"])", kind::choice, "", "", {"a", "b"}},
        {R"(,"structured_outputs":{"choice":["a"]})", kind::choice, "", "", {"a"}},
        {R"(,"guided_grammar":"root ::= \"x\"")", kind::grammar, "", "root ::= \"x\"", {}},
        {R"(,"grammar":"root ::= \"x\"")", kind::grammar, "", "root ::= \"x\"", {}},
        {R"(,"structured_outputs":{"grammar":"r"})", kind::grammar, "", "r", {}},
    };
    for (const api& by : apis())
        for (const row& r : rows) {
            SCOPED_TRACE(std::string(by.name) + r.fields);
            auto request = taken(by, by.max_tokens + std::string(r.fields));
            const auto wanted = request.take_generation(std::nullopt, std::nullopt);
            EXPECT_EQ(wanted.form.what, r.type);
            EXPECT_EQ(wanted.form.schema_json, r.schema);
            EXPECT_EQ(wanted.form.rules, r.rules);
            EXPECT_EQ(wanted.form.choices, r.choices);
            EXPECT_TRUE(wanted.form.is_strict) << "nothing of it is dropped";
        }
}

TEST(answer_request, an_answer_has_one_form) {
    for (const api& by : apis()) {
        SCOPED_TRACE(by.name);
        EXPECT_EQ(refused(by, R"(,"guided_choice":["a"],"grammar":"root ::= x")").path, "grammar");
        EXPECT_EQ(refused(by, R"(,"structured_outputs":{"regex":"a","choice":["b"]})").path,
                  "structured_outputs.choice");
        EXPECT_EQ(refused(by, R"(,"json_schema":{},"guided_json":{})").path, "json_schema");
        EXPECT_EQ(refused(by, R"(,"guided_json":"[]")").path, "guided_json");
        EXPECT_EQ(refused(by, R"(,"guided_choice":[7])").path, "guided_choice.0");
        EXPECT_EQ(refused(by, R"(,"guided_regex":7)").path, "guided_regex");
    }
    EXPECT_EQ(refused(apis()[1], R"(,"response_format":{"type":"json_object"},"grammar":"x")").path,
              "grammar");
}

TEST(answer_request, choices_are_taken_at_their_limit_and_refused_one_above) {
    const auto list = [](int count) {
        std::string items = R"("a")";
        for (int i = 1; i < count; ++i) items += R"(,"a")";
        return R"(,"guided_choice":[)" + items + "]";
    };
    for (const api& by : apis()) {
        EXPECT_EQ(taken(by, by.max_tokens + list(10'000)).form.choices.size(), 10'000u);
        EXPECT_EQ(refused(by, list(10'001)).message,
                  "guided_choice: may have 10000 items, has 10001");
    }
}

TEST(answer_request, log_probabilities_of_an_answer_are_bounded_by_its_tokens) {
    const auto tokens = [](const std::string& fields, int max_tokens) {
        auto asked = openai::parse_chat(
            R"({"model":"m","messages":[{"role":"user","content":"x"}],"max_tokens":)" +
            std::to_string(max_tokens) + fields + "}");
        EXPECT_TRUE(asked);
        return asked->take_generation({}, {}).max_tokens;
    };
    const std::string all = R"(,"logprobs":true,"top_logprobs":20)";
    EXPECT_EQ(tokens(all, 5'326), 5'326);
    EXPECT_EQ(tokens(all, 5'327), 5'326) << "64 MiB of 21 scores a token";
    EXPECT_EQ(tokens(all + R"(,"n":2)", 5'000), 2'663);
    EXPECT_EQ(tokens(R"(,"logprobs":true)", 1'000'000), 111'848);
    EXPECT_EQ(tokens("", 1'000'000), 1'000'000);
}

TEST(answer_request, fields_of_other_servers_that_ask_for_nothing_are_ignored) {
    for (const api& by : apis())
        for (const char* fields :
             {R"(,"guided_json":null,"guided_regex":"","guided_choice":[],"grammar":"")",
              R"(,"guided_decoding_backend":"xgrammar","structured_outputs":{},"json_schema":null)",
              R"(,"continue_final_message":false,"add_generation_prompt":true,"lora":[])",
              R"(,"chat_template_kwargs":{},"min_tokens":0,"ignore_eos":false)",
              R"(,"mirostat":0,"typical_p":1.0,"dry_multiplier":0.0,"top_n_sigma":-1,"best_of":1)",
              R"(,"guided_nonsense":null,"echo":false,"bad_words":[],"documents":null)",
              R"(,"stop_token_ids":[],"stop_token_ids":null,"repeat_penalty":1.0)"})
            taken(by, std::string(by.max_tokens) + fields);
}

TEST(answer_request, a_template_is_told_whether_to_think) {
    const api& chat = apis()[1];
    auto thinks = [&](const char* fields) { return taken(chat, fields).thinking.enabled; };
    EXPECT_EQ(thinks(R"(,"chat_template_kwargs":{"enable_thinking":false})"), false);
    EXPECT_EQ(thinks(R"(,"chat_template_kwargs":{"enable_thinking":true})"), true);
    EXPECT_EQ(thinks(R"(,"chat_template_kwargs":{"enable_thinking":null})"), std::nullopt);
    EXPECT_EQ(
        thinks(R"(,"reasoning_effort":"none","chat_template_kwargs":{"enable_thinking":false})"),
        false);
    EXPECT_EQ(refused(chat, R"(,"reasoning_effort":"none",)"
                            R"("chat_template_kwargs":{"enable_thinking":true})")
                  .path,
              "chat_template_kwargs.enable_thinking");
    EXPECT_EQ(refused(chat, R"(,"chat_template_kwargs":{"enable_thinking":1})").path,
              "chat_template_kwargs.enable_thinking");
}

}  // namespace
}  // namespace semantic::protocol
