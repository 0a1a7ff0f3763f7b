// Random damage to valid bodies: always a request or an error that names its reason, never anything
// else.

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <string>

#include "protocol/anthropic/messages.hpp"
#include "protocol/api_error.hpp"
#include "tests/protocol/damage.hpp"

namespace semantic::protocol::anthropic {
namespace {

const std::array<std::string, 3> seeds{
    R"({"model":"m","max_tokens":5,"stream":true,"temperature":0.5,"top_p":0.9,"top_k":3,)"
    R"("stop_sequences":["a","b"],"messages":[{"role":"user","content":"Hi"}]})",
    R"({"model":"m","max_tokens":5,"system":[{"type":"text","text":"S\u00e9"}],"messages":[)"
    R"({"role":"user","content":[{"type":"text","text":"é"}]},{"role":"assistant",)"
    R"("content":[{"type":"thinking","thinking":"t","signature":"s"},{"type":"tool_use",)"
    R"("id":"t1","name":"n","input":{"a":[1,2.5e3]}}]},{"role":"user","content":[)"
    R"({"type":"tool_result","tool_use_id":"t1","content":[{"type":"text","text":"r"}],)"
    R"("is_error":false}]}]})",
    R"({"model":"m","max_tokens":0,"tools":[{"name":"n","description":"d",)"
    R"("input_schema":{"type":"object","properties":{"x":{"type":"string"}}}}],)"
    R"("tool_choice":{"type":"auto","disable_parallel_tool_use":true},)"
    R"("metadata":{"user_id":"u"},"messages":[{"role":"system","content":"s"},)"
    R"({"role":"assistant","content":"a"}]})"};

/// Returns: whether it was accepted.
bool check(const std::string& body) {
    auto request = parse_messages(body);
    auto counted = parse_count_tokens(body);
    if (request) {
        EXPECT_TRUE(counted) << body;  // what can be answered can be counted
        EXPECT_FALSE(request->chat.messages.empty()) << body;
        return true;
    }
    EXPECT_FALSE(request.error().what.empty()) << body;
    error_reply reply = make_error_reply(dialect::anthropic, request.error(), "req_1");
    EXPECT_EQ(reply.status, 400) << body;
    // The reply is JSON whatever the client sent.
    EXPECT_TRUE(parse_json(reply.body, {})) << reply.body;
    return false;
}

TEST(parse_messages, damaged_bodies_are_a_request_or_an_error) {
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

TEST(parse_messages, values_of_the_wrong_kind_are_a_request_or_an_error) {
    std::mt19937 random(7);
    int accepted = 0;
    constexpr int rounds = 10000;
    for (int i = 0; i < rounds; ++i)
        accepted +=
            check(with_value_replaced(seeds[static_cast<std::size_t>(i) % seeds.size()], random));
    EXPECT_GT(accepted, rounds / 100);
    EXPECT_LT(accepted, rounds * 9 / 10);
}

TEST(parse_messages, undamaged_bodies_are_requests) {
    for (const std::string& body : seeds) EXPECT_TRUE(check(body));
}

}  // namespace
}  // namespace semantic::protocol::anthropic
