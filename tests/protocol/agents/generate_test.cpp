// SPDX-License-Identifier: Apache-2.0
#include "protocol/agents/generate.hpp"

#include <boost/json.hpp>

#include <gtest/gtest.h>

#include "tests/protocol/outline.hpp"
#include "tests/protocol/wire_golden.hpp"

namespace semantic::protocol::agents {
namespace {

namespace json = boost::json;

generate_request parsed(const std::string& body) {
    auto request = parse_generate(body);
    EXPECT_TRUE(request) << body << ": " << (request ? "" : request.error().message);
    return request ? std::move(*request) : generate_request{};
}

TEST(parse_generate, a_raw_prompt_is_taken_as_it_stands) {
    generate_request request = parsed(R"({"prompt":"<|im_start|>user\n"})");
    EXPECT_EQ(request.prompt, "<|im_start|>user\n");
    EXPECT_TRUE(request.chat.messages.empty());
    EXPECT_EQ(request.max_tokens, 256);
    EXPECT_FALSE(request.append);
    EXPECT_FALSE(request.stream);
    EXPECT_FALSE(request.sampling.temperature) << "the model's own preference";
}

TEST(parse_generate, every_field_arrives) {
    generate_request request = parsed(
        R"({"messages":[{"role":"user","content":"Hi"}],"system":"Be brief.","append":false,
            "tools":[{"name":"ls","input_schema":{"type":"object"}}],"max_tokens":7,
            "temperature":0.5,"seed":3,"stop":["a","b"],"stream":true,"thinking":true})");
    EXPECT_FALSE(request.prompt);
    EXPECT_EQ(outline(request.chat), "user: [Hi]\n");
    EXPECT_EQ(request.chat.system, "Be brief.");
    EXPECT_EQ(request.chat.tools.size(), 1u);
    EXPECT_EQ(request.max_tokens, 7);
    EXPECT_EQ(request.sampling.temperature, 0.5f);
    EXPECT_EQ(request.sampling.seed, 3u);
    EXPECT_EQ(request.stop_sequences, (std::vector<std::string>{"a", "b"}));
    EXPECT_TRUE(request.stream);
    EXPECT_EQ(request.thinking.enabled, true);
    EXPECT_EQ(parsed(R"({"prompt":"x","stop":"END"})").stop_sequences,
              (std::vector<std::string>{"END"}));
    EXPECT_TRUE(parsed(R"({"prompt":"x","append":true})").append);
    EXPECT_TRUE(parsed(R"({"messages":[{"role":"user","content":"x"}],"append":true})").append);
}

TEST(parse_generate, what_contradicts_itself_or_lies_out_of_range_is_refused_by_path) {
    const std::string hi = R"("messages":[{"role":"user","content":"x"}])";
    struct row {
        std::string body;
        errc code;
        std::string starts;
    };
    for (const row& r : {
             row{"{}", errc::missing_field, "prompt: required, unless there are messages"},
             row{R"({"prompt":""})", errc::bad_value, "prompt: must not be empty"},
             row{R"({"prompt":5})", errc::bad_value, "prompt: expected a string"},
             row{R"({"prompt":"x",)" + hi + "}", errc::bad_value, "messages: a raw prompt is"},
             row{R"({"prompt":"x","system":"s"})", errc::bad_value, "system: a raw prompt is"},
             row{R"({"prompt":"x","tools":[]})", errc::bad_value, "tools: a raw prompt is"},
             row{R"({"append":true,"system":"s",)" + hi + "}", errc::bad_value,
                 "system: is at the beginning"},
             row{R"({"append":true,"tools":[],)" + hi + "}", errc::bad_value,
                 "tools: is at the beginning"},
             row{R"({"append":1,"prompt":"x"})", errc::bad_value, "append: "},
             row{R"({"stream":"yes","prompt":"x"})", errc::bad_value, "stream: "},
             row{R"({"thinking":{},"prompt":"x"})", errc::bad_value, "thinking: "},
             row{R"({"max_tokens":-2,"prompt":"x"})", errc::bad_value, "max_tokens: "},
             row{R"({"max_tokens":1000001,"prompt":"x"})", errc::bad_value, "max_tokens: "},
             row{R"({"temperature":2.5,"prompt":"x"})", errc::bad_value, "temperature: "},
             row{R"({"stop":5,"prompt":"x"})", errc::bad_value, "stop: "},
             row{R"({"messages":[]})", errc::bad_value, "messages: "},
             row{R"({"prompt":"x","continue_final_message":true})", errc::unsupported,
                 "continue_final_message: is about messages"},
             row{R"({"prompt":"x","add_generation_prompt":false})", errc::unsupported,
                 "add_generation_prompt: is about messages"},
             row{R"({"prompt":"x","chat_template_kwargs":{"a":1}})", errc::unsupported,
                 "chat_template_kwargs: is about messages"},
             row{R"({"messages":[{"role":"user","content":[{"type":"image"}]}]})",
                 errc::unsupported, "messages.0.content.0: "},
             row{"[]", errc::bad_value, ""},
             row{"{", errc::malformed_json, ""},
         }) {
        auto request = parse_generate(r.body);
        ASSERT_FALSE(request) << r.body;
        EXPECT_EQ(request.error().code, r.code) << r.body;
        EXPECT_TRUE(request.error().message.starts_with(r.starts)) << request.error().message;
    }
}

TEST(generate_stream, an_answer_that_failed_says_nothing_more) {
    id_maker ids(wire_golden::counting());
    generate_stream stream("req_1", ids);
    EXPECT_FALSE(stream.ping().empty());
    EXPECT_NE(stream.on_failed({errc::internal, "x", {}, {}}).find("event: error"),
              std::string::npos);
    EXPECT_TRUE(stream.ended());
    EXPECT_EQ(stream.ping(), "");
    EXPECT_EQ(stream.on_finished({}), "");
}

TEST(generate_wire, requests_become_the_expected_bytes) {
    auto parse = [](const std::string& body) -> result<wire_golden::repliers> {
        auto request = parse_generate(body);
        if (!request) return request.error();
        static std::vector<std::unique_ptr<id_maker>> makers;  // outlive what they name calls for
        wire_golden::repliers made;
        makers.push_back(std::make_unique<id_maker>(wire_golden::counting()));
        made.stream = std::make_unique<generate_stream>("req_golden", *makers.back());
        makers.push_back(std::make_unique<id_maker>(wire_golden::counting()));
        made.collector = std::make_unique<generate_collector>(*makers.back());
        return made;
    };
    EXPECT_GE(wire_golden::run_all("agents", dialect::native, parse), 8);
}

}  // namespace
}  // namespace semantic::protocol::agents
