// Random damage to valid bodies: always a request or an error that names its reason, never anything
// else.

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <string>

#include "protocol/api_error.hpp"
#include "protocol/openai/chat.hpp"
#include "tests/protocol/damage.hpp"

namespace semantic::protocol::openai {
namespace {

const std::array<std::string, 3> seeds{
    R"({"model":"m","max_completion_tokens":5,"stream":true,"temperature":0.5,"top_p":0.9,)"
    R"("stop":["a","b"],"stream_options":{"include_usage":true},"session_id":"s-1",)"
    R"("messages":[{"role":"developer","content":"S\u00e9"},{"role":"user","content":"Hi"}]})",
    R"({"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"é"}]},)"
    R"({"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function",)"
    R"("function":{"name":"n","arguments":"{\"a\":[1,2.5e3]}"}}]},{"role":"tool",)"
    R"("tool_call_id":"c1","content":[{"type":"text","text":"r"}]},{"role":"assistant",)"
    R"("content":null,"function_call":{"name":"f","arguments":""}},{"role":"function",)"
    R"("name":"f","content":"x"}],"response_format":{"type":"text"},"n":1,"seed":7})",
    R"({"model":"m","max_tokens":0,"tools":[{"type":"function","function":{"name":"n",)"
    R"("description":"d","parameters":{"type":"object","properties":{"x":{"type":"string"}}}}}],)"
    R"("tool_choice":"auto","parallel_tool_calls":false,"logit_bias":{},"logprobs":false,)"
    R"("frequency_penalty":0,"messages":[{"role":"system","content":"s"},)"
    R"({"role":"assistant","content":"a","refusal":null}]})"};

/// Returns: whether it was accepted.
bool check(const std::string& body) {
    auto request = parse_chat(body);
    if (request) {
        EXPECT_FALSE(request->chat.messages.empty()) << body;
        EXPECT_FALSE(request->model.empty()) << body;
        return true;
    }
    EXPECT_FALSE(request.error().what.empty()) << body;
    error_reply reply = make_error_reply(dialect::openai, request.error(), "req_1");
    EXPECT_EQ(reply.status, 400) << body;
    // The reply is JSON whatever the client sent.
    EXPECT_TRUE(parse_json(reply.body, {})) << reply.body;
    return false;
}

TEST(parse_chat, damaged_bodies_are_a_request_or_an_error) {
    std::mt19937 random(20261120);
    int accepted = 0;
    constexpr int rounds = 20000;
    for (int i = 0; i < rounds; ++i) {
        std::string body = seeds[static_cast<std::size_t>(i) % seeds.size()];
        for (auto times = 1 + random() % 4; times > 0; --times) damage(body, random);
        accepted += check(body);
    }
    // Both outcomes must have been met, or the test says nothing.
    EXPECT_GT(accepted, rounds / 100);
    EXPECT_LT(accepted, rounds / 2);
}

TEST(parse_chat, values_of_the_wrong_kind_are_a_request_or_an_error) {
    std::mt19937 random(7);
    int accepted = 0;
    constexpr int rounds = 10000;
    for (int i = 0; i < rounds; ++i)
        accepted +=
            check(with_value_replaced(seeds[static_cast<std::size_t>(i) % seeds.size()], random));
    EXPECT_GT(accepted, rounds / 100);
    EXPECT_LT(accepted, rounds * 9 / 10);
}

TEST(parse_chat, undamaged_bodies_are_requests) {
    for (const std::string& body : seeds) EXPECT_TRUE(check(body));
}

}  // namespace
}  // namespace semantic::protocol::openai
