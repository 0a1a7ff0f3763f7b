// SPDX-License-Identifier: Apache-2.0
#include "protocol/openai/completions.hpp"

#include <boost/json.hpp>

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/protocol/fuzz.hpp"

namespace semantic::protocol::openai {
namespace {

namespace json = boost::json;
using engine::stop_reason;

std::string body(const std::string& fields) { return R"({"model":"m",)" + fields + "}"; }

completion_request parsed(const std::string& text) {
    auto request = parse_completion(text);
    EXPECT_TRUE(request) << text << ": " << (request ? "" : request.error().message);
    return request ? std::move(*request) : completion_request{};
}

TEST(parse_completion, a_prompt_stands_as_it_is_with_the_vendors_defaults) {
    completion_request request = parsed(body(R"("prompt":"The dog")"));
    EXPECT_EQ(request.prompt, "The dog");
    EXPECT_EQ(request.max_tokens, 16);
    EXPECT_EQ(request.choices, 1);
    EXPECT_FALSE(request.top_scores);
    EXPECT_FALSE(request.stream);
    EXPECT_EQ(request.take_generation({}, {}).text, "The dog");
    EXPECT_EQ(parsed(body(R"("prompt":["One"])")).prompt, "One");
}

TEST(parse_completion, says_how_much_is_answered_and_how) {
    const completion_request request = parsed(
        body(R"("prompt":"a","max_tokens":7,"n":3,"best_of":1,"logprobs":5,"stop":["x"],)"
             R"("temperature":0,"seed":4,"stream":true,"stream_options":{"include_usage":true})"));
    EXPECT_EQ(request.max_tokens, 7);
    EXPECT_EQ(request.choices, 3);
    EXPECT_EQ(request.top_scores, 5);
    EXPECT_EQ(request.stop_sequences, std::vector<std::string>{"x"});
    EXPECT_TRUE(request.stream);
    EXPECT_TRUE(request.include_usage);
}

TEST(parse_completion, what_is_not_done_is_named) {
    struct refusal {
        std::string fields;
        errc code;
        std::string message;
    };
    for (const refusal& each : std::vector<refusal>{
             {R"("x":1)", errc::missing_field, "prompt: field required"},
             {R"("prompt":"")", errc::bad_value, "prompt: must not be empty"},
             {R"("prompt":[])", errc::unsupported,
              "prompt: one prompt is taken, as text and not as token ids"},
             {R"("prompt":["a","b"])", errc::unsupported,
              "prompt: one prompt a request is answered"},
             {R"("prompt":[7,8])", errc::unsupported,
              "prompt.0: one prompt is taken, as text and not as token ids"},
             {R"("prompt":"a","suffix":"b")", errc::unsupported,
              "suffix: this server continues texts; it does not fill them in"},
             {R"("prompt":"a","echo":true)", errc::unsupported, "echo: is not supported"},
             {R"("prompt":"a","best_of":2)", errc::unsupported, "best_of: is not supported"},
             {R"("prompt":"a","logprobs":6)", errc::bad_value,
              "logprobs: must be between 0 and 5, is 6"},
         }) {
        auto request = parse_completion(body(each.fields));
        ASSERT_FALSE(request) << each.fields;
        EXPECT_EQ(request.error().code, each.code) << each.fields;
        EXPECT_EQ(request.error().message, each.message);
    }
}

reply_options options_of(int choices) {
    reply_options options;
    options.completion_id = "cmpl-1";
    options.model = "m";
    options.choices = choices;
    options.include_usage = true;
    return options;
}

engine::admitted admission() {
    engine::admitted event{*storage::agent_id::parse("msg_a"), {}};
    event.usage.prompt_tokens = 10;
    event.usage.reused_tokens = 6;
    return event;
}

engine::token_scores scored(const std::string& text) {
    engine::scored_token token{1, -0.5f, text, text};
    return {token, {token}};
}

std::vector<json::object> chunks_of(const std::string& bytes) {
    std::vector<json::object> chunks;
    for (std::size_t at = 0; at < bytes.size();) {
        const std::size_t end = bytes.find("\n\n", at);
        const std::string data = bytes.substr(at + 6, end - at - 6);
        if (data != "[DONE]") chunks.push_back(json::parse(data).as_object());
        at = end + 2;
    }
    return chunks;
}

TEST(completion_stream, is_text_by_choice_then_usage_then_done) {
    completion_stream stream(options_of(2));
    std::string bytes = stream.on_admitted(admission());
    const std::vector<engine::token_scores> scores{scored("ab")};
    stream.on_scores(scores);
    bytes += stream.on_text("ab");
    stream.on_choice(1);
    bytes += stream.on_text("cd");
    bytes += stream.on_choice_finished({1, stop_reason::max_tokens, "", 2});
    bytes += stream.on_choice_finished({0, stop_reason::end_turn, "", 2});
    bytes += stream.on_finished({stop_reason::end_turn, "", 4, true});
    EXPECT_TRUE(bytes.ends_with("data: [DONE]\n\n"));
    EXPECT_EQ(stream.on_text("more") + stream.ping(), "");
    const auto chunks = chunks_of(bytes);
    ASSERT_EQ(chunks.size(), 5u);
    const auto choice = [&](std::size_t i) { return chunks[i].at("choices").at(0); };
    EXPECT_EQ(choice(0).at("text"), "ab");
    EXPECT_EQ(json::serialize(choice(0).at("logprobs")),
              R"({"tokens":["ab"],"token_logprobs":[-5E-1],"top_logprobs":[{"ab":-5E-1}],)"
              R"("text_offset":[0]})");
    EXPECT_EQ(choice(1).at("index"), 1);
    EXPECT_TRUE(choice(1).at("logprobs").is_null());
    EXPECT_EQ(choice(2).at("finish_reason"), "length");
    EXPECT_EQ(choice(3).at("finish_reason"), "stop");
    EXPECT_EQ(chunks[3].at("semantic").at("reused_tokens"), 6);
    EXPECT_EQ(chunks[4].at("usage").at("prompt_tokens_details").at("cached_tokens"), 6);
    EXPECT_EQ(chunks[0].at("object"), "text_completion");
}

TEST(completion_stream, a_failure_is_its_last_event) {
    completion_stream stream(options_of(1));
    const std::string bytes = stream.on_failed(fail(errc::internal, "gone"));
    EXPECT_EQ(chunks_of(bytes).at(0).at("error").at("message"), "gone");
    EXPECT_EQ(stream.on_finished({stop_reason::end_turn, "", 1, true}), "");
}

TEST(completion_collector, is_one_body_with_every_choice) {
    completion_collector collector(options_of(2));
    collector.on_admitted(admission());
    const std::vector<engine::token_scores> scores{scored("a"), scored("b")};
    collector.on_scores(scores);
    collector.on_text("ab");
    collector.on_choice(1);
    collector.on_text("cd");
    collector.on_choice_finished({1, stop_reason::max_tokens, "", 2});
    auto made = collector.on_finished({stop_reason::stop_sequence, "x", 4, true});
    ASSERT_TRUE(made);
    const json::value said = json::parse(*made);
    EXPECT_EQ(said.at("choices").at(0).at("text"), "ab");
    EXPECT_EQ(json::serialize(said.at("choices").at(0).at("logprobs").at("text_offset")), "[0,1]");
    EXPECT_EQ(said.at("choices").at(0).at("finish_reason"), "stop");
    EXPECT_EQ(said.at("choices").at(1).at("finish_reason"), "length");
    EXPECT_EQ(said.at("usage").at("total_tokens"), 14);
    completion_collector cut(options_of(1));
    EXPECT_FALSE(cut.on_finished({stop_reason::cancelled, "", 0, false}));
}

const std::vector<std::string> seeds{
    body(R"("prompt":"The dog","max_tokens":7,"n":2,"logprobs":1,"stop":["x"],"stream":true)"),
    body(R"("prompt":["é"],"temperature":0.5,"seed":3,"logit_bias":{"7":-1},"best_of":1)"),
};

std::optional<failure> check(const std::string& text) {
    auto request = parse_completion(text);
    if (!request) return request.error();
    EXPECT_FALSE(request->prompt.empty()) << text;
    return std::nullopt;
}

TEST(parse_completion, damaged_bodies_are_a_request_or_an_error) {
    expect_damaged_bodies_are_answered(seeds, dialect::openai, check);
}

TEST(parse_completion, values_of_the_wrong_kind_are_a_request_or_an_error) {
    expect_other_values_are_answered(seeds, dialect::openai, check);
}

}  // namespace
}  // namespace semantic::protocol::openai
