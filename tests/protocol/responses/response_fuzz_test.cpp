// SPDX-License-Identifier: Apache-2.0
// Damaged bodies: tests/protocol/fuzz.hpp says how.

#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <string>

#include "protocol/responses/request.hpp"
#include "tests/protocol/fuzz.hpp"

namespace semantic::protocol::responses {
namespace {

const std::array<std::string, 4> seeds{
    R"({"model":"m","input":"Hi","instructions":"S\u00e9","stream":true,"temperature":0.5,)"
    R"("max_output_tokens":5,"store":false,"include":["reasoning.encrypted_content"],)"
    R"("reasoning":{"effort":"low","summary":"auto"},"metadata":{"a":"b"}})",
    R"({"model":"m","input":[{"role":"developer","content":"s"},{"type":"message","role":"user",)"
    R"("content":[{"type":"input_text","text":"é"}]},{"type":"reasoning","summary":[],)"
    R"("content":[{"type":"reasoning_text","text":"h"}]},{"type":"function_call","call_id":"c",)"
    R"("name":"n","arguments":"{\"a\":[1,2.5e3]}"},{"type":"function_call_output",)"
    R"("call_id":"c","output":"r"},{"type":"custom_tool_call","call_id":"d","name":"p",)"
    R"("input":"x"},{"type":"custom_tool_call_output","call_id":"d","output":"y"}]})",
    R"({"model":"m","input":[{"role":"user","content":"x"}],"tools":[{"type":"function",)"
    R"("name":"n","strict":false,"parameters":{"type":"object","properties":{}}},)"
    R"({"type":"custom","name":"p","format":{"type":"grammar","syntax":"lark",)"
    R"("definition":"d"}},{"type":"web_search"}],"tool_choice":{"type":"function","name":"n"},)"
    R"("parallel_tool_calls":false,"max_tool_calls":3,"top_logprobs":2,"truncation":"disabled"})",
    R"({"model":"m","input":[{"role":"user","content":"x"},{"type":"additional_tools","role":)"
    R"("developer","tools":[{"type":"function","name":"a","parameters":{}},{"type":"namespace",)"
    R"("name":"s","tools":[{"type":"function","name":"b","parameters":{}}]}]},)"
    R"({"type":"tool_search_call","call_id":"c","execution":"client","arguments":{"q":"x"}},)"
    R"({"type":"tool_search_output","call_id":"c","execution":"client","tools":[{"type":)"
    R"("function","name":"d","parameters":{},"defer_loading":true}]},{"type":)"
    R"("configuration_update","reasoning":{"effort":"low"}},{"type":"compaction_trigger"}],)"
    R"("tools":[{"type":"tool_search","execution":"client","parameters":{"type":"object"}},)"
    R"({"type":"function","name":"d","defer_loading":true}],"prompt_cache_options":)"
    R"({"prewarm":true,"ttl":"12h","mode":"explicit","comparison_response_id":"resp_1"},)"
    R"("prompt_cache_retention":"24h"})"};

std::optional<failure> check(const std::string& body) {
    auto request = parse_response(body);
    if (!request) return request.error();
    EXPECT_TRUE(!request->generates || !request->chat.messages.empty()) << body;
    EXPECT_FALSE(request->model.empty()) << body;
    return std::nullopt;
}

TEST(parse_response, damaged_bodies_are_a_request_or_an_error) {
    expect_damaged_bodies_are_answered(seeds, dialect::openai, check);
}

TEST(parse_response, values_of_the_wrong_kind_are_a_request_or_an_error) {
    expect_other_values_are_answered(seeds, dialect::openai, check);
}

TEST(parse_response, undamaged_bodies_are_requests) {
    for (const std::string& body : seeds) EXPECT_FALSE(check(body));
}

}  // namespace
}  // namespace semantic::protocol::responses
