// SPDX-License-Identifier: Apache-2.0
// What clients of late 2026 send: tools that come late, summaries, edits of the context, policies
// of memories.

#include <string>
#include <utility>

#include "protocol/responses/compaction.hpp"
#include "tests/cost/languages.hpp"

namespace semantic::cost {

namespace {

std::vector<piece_kind> with_json(std::vector<piece_kind> more) {
    std::vector<piece_kind> all = json_kinds();
    for (piece_kind& each : more) all.push_back(std::move(each));
    return all;
}

/// An item with a summary of this server's, which replaces all before it.
std::string_view summary_item() {
    static const std::string made = R"({"type":"compaction","encrypted_content":")" +
                                    protocol::responses::seal_summary("It was about a dog.", true) +
                                    "\"}";
    return made;
}

}  // namespace

namespace {

/// Fields of Messages, with their edits and safeguards.
std::vector<piece_kind> with_message_fields(std::vector<piece_kind> more) {
    const std::vector<piece_kind> fields{
        {'e',
         ",",
         {R"({"type":"clear_thinking_20251015","keep":"all"})",
          R"({"type":"clear_thinking_20251015","keep":{"type":"thinking_turns","value":`%}})",
          R"({"type":"clear_tool_uses_20250919","trigger":{"type":"input_tokens",)"
          R"("value":`%},"keep":{"type":"tool_uses","value":`%}})",
          R"({"type":"clear_tool_uses_20250919","trigger":{"type":"tool_uses","value":0},)"
          R"("keep":{"type":"tool_uses","value":0},"clear_tool_inputs":true})",
          R"({"type":"clear_tool_uses_20250919","exclude_tools":["t`%","t`#"],)"
          R"("clear_tool_inputs":["t`%"],"clear_at_least":{"type":"input_tokens",)"
          R"("value":`%}})",
          R"({"type":"compact_20260112","trigger":{"type":"input_tokens","value":50000}})",
          R"({"type":"`$"})"}},
        {'g',
         ",",
         {R"({"type":"dangerous_tool_use","classifier_context":{"v":1}})",
          R"({"type":"dangerous_tool_use","classifier_context":{"permission_mode":"auto",)"
          R"("rules":[`*v],"live_cwd":"`$","trusted_directories":[`*v],"git_state":`1v}})",
          R"({"type":"`$"})"}},
        {'f',
         ",",
         {R"("temperature":1)", R"("context_management":{"edits":[`*e]})", R"("safeguards":[`*g])",
          R"("compaction":{"type":"summarize","instructions":"`$"})",
          R"("diagnostics":{"previous_message_id":"msg_`$"})",
          R"("memory_policy":{"keep":"1h","pin":true})",
          R"("cache_control":{"type":"ephemeral","ttl":"`#m"})",
          R"("tool_choice":{"type":"tool","name":"t`%"})",
          R"("thinking":{"type":"adaptive","display":"`$"})",
          R"("system":[{"type":"text","text":"`$","cache_control":{"ttl":"1h"}}])"}}};
    more.insert(more.end(), fields.begin(), fields.end());
    return with_json(std::move(more));
}

}  // namespace

const language& late_messages() {
    static const language made{
        R"({"model":"m","max_tokens":9,"tools":[`*t],"messages":[{"role":"user","content":"x"},)"
        R"(`*m,{"role":"user","content":"y"}],`*f})",
        with_message_fields(
            {{'m',
              ",",
              {R"({"role":"user","content":"x"})", R"({"role":"system","content":[`*k]})",
               R"({"role":"system","content":[`*k],"clear_at":"next_user_message"})",
               R"({"role":"system","content":"`$","clear_at":"next_user_message"})",
               R"({"role":"system","output_config":{"effort":"`$"}})",
               R"({"role":"assistant","content":[{"type":"tool_use","id":"c`#","name":"t`%",)"
               R"("input":{"a":`1v}}]},{"role":"user","content":[{"type":"tool_result",)"
               R"("tool_use_id":"c`=","content":[`*r]}]})",
               R"({"role":"assistant","content":[{"type":"thinking","thinking":"`$",)"
               R"("signature":""},{"type":"text","text":"`$"}]})",
               R"({"role":"user","content":[`*s]})", R"({"role":"assistant","content":[`*s]})"}},
             {'k',
              ",",
              {R"({"type":"text","text":"x"})",
               R"({"type":"tool_addition","tool":{"type":"tool_reference","name":"t`%"}})",
               R"({"type":"tool_removal","tool":{"type":"tool_reference","name":"t`%"}})",
               R"({"type":"tool_removal","tool":{"type":"tool_reference","name":"t`#"}})",
               R"({"type":"tool_addition","tool":{"type":"tool_reference","name":"t`#"}})",
               R"({"type":"tool_addition","tool":{"type":"tool_definition","definition":)"
               R"({"name":"t`%","description":"`#","input_schema":{"type":"object"}}}})",
               R"({"type":"tool_addition","tool":{"type":"tool_definition","definition":)"
               R"({"name":"u`#","description":"`$","input_schema":{"type":"object",)"
               R"("properties":{`*q}}}}})"}},
             {'r',
              ",",
              {R"({"type":"text","text":"x"})", R"({"type":"text","text":"`$"})",
               R"({"type":"tool_reference","tool_name":"t`%"})",
               R"({"type":"tool_reference","tool_name":"t`#"})",
               R"({"type":"tool_reference","tool_name":"`$"})"}},
             {'s',
              ",",
              {R"({"type":"compaction","content":"x"})", R"({"type":"compaction","content":"`$"})",
               R"({"type":"compaction","content":"x","tool_changes":[`*k]})",
               R"({"type":"text","text":"`$"})"}},
             {'t',
              ",",
              {R"({"name":"t`#","input_schema":{"type":"object"}})",
               R"({"name":"t`#","defer_loading":true,"input_schema":{"type":"object"}})",
               R"({"name":"t`#","defer_loading":true,"description":"`$",)"
               R"("input_schema":{"type":"object","properties":{`*q}}})",
               R"({"name":"t`#","input_schema":`1s})",
               R"({"type":"tool_search_tool_bm25_20251119","name":"tool_search_tool_bm25"})",
               R"({"type":"server_`$","name":"x"})"}}})};
    return made;
}

const language& late_responses() {
    static const language made{
        R"({"model":"m","tools":[`*t],"input":[`*i,{"role":"user","content":"y"}],`*f})",
        with_json(
            {{'i',
              ",",
              {R"({"role":"user","content":"x"})",
               R"({"type":"additional_tools","role":"developer","tools":[`*t]})",
               R"({"type":"tool_search_call","call_id":"c`#","execution":"client",)"
               R"("arguments":`1v},{"type":"tool_search_output","call_id":"c`=","tools":[`*t]})",
               R"({"type":"tool_search_output","call_id":null,"tools":[`*t]})",
               R"({"type":"configuration_update","reasoning":{"effort":"`$"}})",
               R"({"type":"function_call","namespace":"n`%","name":"f`%","call_id":"c`#",)"
               R"("arguments":"{}"},{"type":"function_call_output","call_id":"c`=",)"
               R"("output":"`$"})",
               R"({"type":"custom_tool_call","call_id":"c`#","name":"f`%","input":"`$"},)"
               R"({"type":"custom_tool_call_output","call_id":"c`=","output":[`*p]})",
               R"({"type":"shell_call","call_id":"c`#","action":{"commands":[`*r]}},)"
               R"({"type":"shell_call_output","call_id":"c`=","output":[`*v]})",
               R"({"type":"web_search_call","id":"w`#","action":{"query":"`$"}})",
               R"({"type":"compaction","encrypted_content":"`$"})", summary_item(),
               R"({"type":"compaction_trigger"})", R"({"type":"`$"})"}},
             {'p', ",", {R"({"type":"input_text","text":"x"})", R"({"type":"`$"})"}},
             {'t',
              ",",
              {R"({"type":"function","name":"f`%"})",
               R"({"type":"function","name":"f`#","defer_loading":true,"description":"`$"})",
               R"({"type":"function","name":"f`%","description":"`#","parameters":`1s})",
               R"({"type":"custom","name":"g`#","format":{"type":"grammar","syntax":"regex",)"
               R"("definition":"`*x"}})",
               R"({"type":"custom","name":"g`%","defer_loading":true})",
               R"({"type":"namespace","name":"n`%","tools":[`*t]})",
               R"({"type":"namespace","name":"n`#","description":"`$","tools":[`*t]})",
               R"({"type":"namespace","name":"`$","tools":[{"type":"function","name":"`$`#"}]})",
               R"({"type":"tool_search","execution":"client","parameters":`1s})",
               R"({"type":"`$"})"}},
             {'a',
              ",",
              {R"({"type":"function","name":"f`%"})",
               R"({"type":"function","name":"f`%","namespace":"n`%"})",
               R"({"type":"namespace","name":"n`%"})", R"({"type":"custom","name":"g`#"})"}},
             {'f',
              ",",
              {R"("temperature":1)",
               R"("tool_choice":{"type":"allowed_tools","mode":"required","tools":[`*a]})",
               R"("tool_choice":`1a)", R"("instructions":"`$")",
               R"("prompt_cache_options":{"ttl":"`#m","mode":"explicit","prewarm":true,)"
               R"("comparison_response_id":"resp_1"})",
               R"("prompt_cache_retention":"24h")",
               R"("context_management":[{"type":"compaction","compact_threshold":`%},)"
               R"({"type":"`$"}])",
               R"("memory_policy":{"drop":true})", R"("metadata":{"k`#":"`$"})"}}})};
    return made;
}

const language& late_chats() {
    static const language made{
        R"({"model":"m","messages":[{"role":"user","content":"x"},`*m],"tools":[`*t],`*f})",
        with_json(
            {{'m',
              ",",
              {R"({"role":"user","content":"x"})",
               R"({"role":"assistant","content":null,"tool_calls":[{"id":"c`#","type":"custom",)"
               R"("custom":{"name":"f`%","input":"`$"}}]},)"
               R"({"role":"tool","tool_call_id":"c`=","content":"`$"})"}},
             {'t',
              ",",
              {R"({"type":"custom","custom":{"name":"f`#"}})",
               R"({"type":"custom","custom":{"name":"f`#","description":"`$","format":)"
               R"({"type":"grammar","grammar":{"syntax":"regex","definition":"`*x"}}}})",
               R"({"type":"custom","custom":{"name":"f`#","format":)"
               R"({"type":"grammar","grammar":{"syntax":"lark","definition":"start: \"`$\""}}}})"}},
             {'f',
              ",",
              {R"("temperature":1)", R"("tool_choice":{"type":"custom","custom":{"name":"f`%"}})",
               R"("prompt_cache_options":{"ttl":"`#h","mode":"`$"})",
               R"("memory_policy":{"keep":`%,"pin":false})"}}})};
    return made;
}

const language& memory_orders() {
    static const language made{
        R"({`*f})",
        with_json({{'f',
                    ",",
                    {R"("pin":true)", R"("keep":"`#h")", R"("keep":`%)", R"("keep":null)",
                     R"("keep":"`$")", R"("prefetch":true)", R"("drop":true)", R"("at":"msg_`$")",
                     R"("at":`%)", R"("agent_id":"a`#")", R"("k`#":`1v)"}}})};
    return made;
}

const language& mcp_calls() {
    static const language made{
        R"({"jsonrpc":"2.0","id":"`$","method":"tools/call","params":{`1n,`*f}})",
        with_json(
            {{'n',
              "",
              {R"("name":"list_scenarios","arguments":{})",
               R"("name":"list_agents","arguments":{"limit":`%,"after":"`$"})",
               R"("name":"inspect_agent","arguments":{"agent_id":"a`#"})",
               R"("name":"fork_agent","arguments":{"agent_id":"a","at":"msg_`$"})",
               R"("name":"fork_agent","arguments":{"agent_id":"a","new_agent_id":"b","at":`%})",
               R"("name":"append_to_agent","arguments":{"agent_id":"a","text":"`$"})",
               R"("name":"recall_from_agent","arguments":{"agent_id":"a","question":"`$"})",
               R"("name":"run_scenario","arguments":{"scenario_id":"s","max_tokens":`%})",
               R"("name":"`$","arguments":{`*a})"}},
             {'a',
              ",",
              {R"("agent_id":"a")", R"("agent_id":"`$")", R"("new_agent_id":"b`#")", R"("at":`%)",
               R"("at":"msg_`$")", R"("text":"`$")", R"("question":"`$")", R"("max_tokens":`%)",
               R"("limit":`%)", R"("after":"`$")", R"("scenario_id":"`$")", R"("create":true)",
               R"("k`#":`1v)"}},
             {'f', ",", {R"("_meta":{"k`#":`1v})", R"("k`#":`1v)"}}})};
    return made;
}

const language& verdicts() {
    static const language made{
        R"({`*c})", with_json({{'c',
                                ",",
                                {R"("call_1":{"reason":"x","outcome":"flagged"})",
                                 R"("call_`%":{"reason":"`$","outcome":"not_flagged"})",
                                 R"("call_`#":{"outcome":"`$","k":`1v})", R"("k`#":`1v)"}}})};
    return made;
}

}  // namespace semantic::cost
