// SPDX-License-Identifier: Apache-2.0
// Damaged bodies: tests/protocol/fuzz.hpp says how.

#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <string>

#include "protocol/openai/chat.hpp"
#include "tests/protocol/fuzz.hpp"

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
    R"("name":"f","content":"x"}],"response_format":{"type":"text"},"n":2,"seed":7})",
    R"({"model":"m","max_tokens":0,"tools":[{"type":"function","function":{"name":"n",)"
    R"("description":"d","parameters":{"type":"object","properties":{"x":{"type":"string"}}}}}],)"
    R"("tool_choice":"auto","parallel_tool_calls":false,"logit_bias":{"7":-1},"logprobs":true,)"
    R"("top_logprobs":2,"min_p":0.1,"repetition_penalty":1.1,"frequency_penalty":0.5,)"
    R"("messages":[{"role":"system","content":"s"},)"
    R"({"role":"assistant","content":"a","refusal":null}]})"};

std::optional<failure> check(const std::string& body) {
    auto request = parse_chat(body);
    if (!request) return request.error();
    EXPECT_FALSE(request->chat.messages.empty()) << body;
    EXPECT_FALSE(request->model.empty()) << body;
    return std::nullopt;
}

TEST(parse_chat, damaged_bodies_are_a_request_or_an_error) {
    expect_damaged_bodies_are_answered(seeds, dialect::openai, check);
}

TEST(parse_chat, values_of_the_wrong_kind_are_a_request_or_an_error) {
    expect_other_values_are_answered(seeds, dialect::openai, check);
}

TEST(parse_chat, undamaged_bodies_are_requests) {
    for (const std::string& body : seeds) EXPECT_FALSE(check(body));
}

}  // namespace
}  // namespace semantic::protocol::openai
