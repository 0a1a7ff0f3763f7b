// SPDX-License-Identifier: Apache-2.0
// Damaged bodies: tests/protocol/fuzz.hpp says how.

#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <string>

#include "protocol/anthropic/messages.hpp"
#include "tests/protocol/fuzz.hpp"

namespace semantic::protocol::anthropic {
namespace {

const std::array<std::string, 5> seeds{
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
    R"({"role":"assistant","content":"a"}]})",
    R"({"model":"m","max_tokens":5,"tools":[{"name":"a","input_schema":{}},{"name":"b",)"
    R"("input_schema":{},"defer_loading":true}],"messages":[{"role":"assistant","content":[)"
    R"({"type":"tool_use","id":"t","name":"a","input":{}}]},{"role":"user","content":[)"
    R"({"type":"tool_result","tool_use_id":"t","content":[{"type":"tool_reference",)"
    R"("tool_name":"b"}]}]},{"role":"system","content":[{"type":"tool_addition","tool":)"
    R"({"type":"tool_definition","definition":{"name":"c","input_schema":{}}}},)"
    R"({"type":"tool_removal","tool":{"type":"tool_reference","name":"a"}}],)"
    R"("clear_at":"next_user_message","output_config":{"effort":"low"}},)"
    R"({"role":"user","content":[{"type":"compaction","content":"s","tool_changes":[)"
    R"({"type":"tool_addition","tool":{"type":"tool_reference","name":"b"}}]},)"
    R"({"type":"text","text":"x","cache_control":{"type":"ephemeral","ttl":"1h"}}]}]})",
    R"({"model":"m","max_tokens":5,"messages":[{"role":"user","content":"Hi"}],)"
    R"("compaction":{"type":"summarize","instructions":"i"},"safeguards":[{"type":)"
    R"("dangerous_tool_use","classifier_context":{"v":1,"rules":["a"]}}],)"
    R"("context_management":{"edits":[{"type":"clear_tool_uses_20250919","trigger":)"
    R"({"type":"tool_uses","value":3},"keep":{"type":"tool_uses","value":1},)"
    R"("clear_at_least":{"type":"input_tokens","value":9},"exclude_tools":["a"],)"
    R"("clear_tool_inputs":["b"]},{"type":"clear_thinking_20251015","keep":{"type":)"
    R"("thinking_turns","value":2}},{"type":"compact_20260112","instructions":"i",)"
    R"("pause_after_compaction":true,"trigger":{"type":"input_tokens","value":50000}}]}})"};

std::optional<failure> check(const std::string& body) {
    auto request = parse_messages(body);
    if (!request) return request.error();
    EXPECT_TRUE(parse_count_tokens(body)) << body;  // what can be answered can be counted
    EXPECT_FALSE(request->chat.messages.empty()) << body;
    return std::nullopt;
}

TEST(parse_messages, damaged_bodies_are_a_request_or_an_error) {
    expect_damaged_bodies_are_answered(seeds, dialect::anthropic, check);
}

TEST(parse_messages, values_of_the_wrong_kind_are_a_request_or_an_error) {
    expect_other_values_are_answered(seeds, dialect::anthropic, check);
}

TEST(parse_messages, undamaged_bodies_are_requests) {
    for (const std::string& body : seeds) EXPECT_FALSE(check(body));
}

}  // namespace
}  // namespace semantic::protocol::anthropic
