// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "tests/cost/languages.hpp"

namespace semantic::cost {

namespace {

/// `more`, and the pieces that every JSON text may have.
std::vector<piece_kind> with_json(std::vector<piece_kind> more) {
    std::vector<piece_kind> all = json_kinds();
    for (piece_kind& each : more) all.push_back(std::move(each));
    return all;
}

/// Fields that several dialects of OpenAI's have.
constexpr const char* form_field =
    R"("response_format":{"type":"json_schema","json_schema":{"name":"a","schema":`1s}})";

}  // namespace

const language& openai_bodies() {
    static const language made{
        R"({"model":"m","messages":[{"role":"user","content":"x"},`*m],"tools":[`*t],`*f})",
        with_json(
            {{'m',
              ",",
              {R"({"role":"user","content":"x"})", R"({"role":"user","content":"`$"})",
               R"({"role":"user","content":[`*p]})", R"({"role":"system","content":"s`#"})",
               R"({"role":"developer","content":[`*p]})", R"({"role":"assistant","content":"`$"})",
               R"({"role":"assistant","content":"`$","reasoning_content":"`$"})",
               R"({"role":"assistant","content":null,"tool_calls":[`*c]})",
               R"({"role":"assistant","content":null,"tool_calls":[{"id":"c`#","type":"function",)"
               R"("function":{"name":"f0","arguments":"{\"a\":[`#,1]}"}}]},)"
               R"({"role":"tool","tool_call_id":"c`=","content":"`$"})",
               R"({"role":"assistant","content":null,"tool_calls":[{"id":"c`#","type":"function",)"
               R"("function":{"name":"f0","arguments":"{}"}}]},)"
               R"({"role":"tool","tool_call_id":"c`=","content":[`*p]})",
               R"({"role":"tool","tool_call_id":"c`%","content":"`$"})"}},
             {'p',
              ",",
              {R"({"type":"text","text":"x"})", R"({"type":"text","text":"`$"})",
               R"({"type":"refusal","refusal":"`$"})",
               R"({"type":"image_url","image_url":{"url":"data:image/png;base64,`$"}})",
               R"({"type":"file","file":{"filename":"a`#","file_data":"`$"}})",
               R"({"type":"input_audio","input_audio":{"data":"`$","format":"wav"}})"}},
             {'c',
              ",",
              {R"({"id":"c`#","type":"function","function":{"name":"f0","arguments":"{}"}})",
               R"({"id":"c`#","type":"function","function":{"name":"f`#",)"
               R"("arguments":"{\"a\":[`#,\"`$\"]}"}})",
               R"({"id":"c`#","type":"function","function":{"name":"f0","arguments":"`$"}})"}},
             {'t',
              ",",
              {R"({"type":"function","function":{"name":"f`#"}})",
               R"({"type":"function","function":{"name":"f`#","description":"`$",)"
               R"("parameters":{"type":"object","properties":{`*q}}}})",
               R"({"type":"function","function":{"name":"f`#","strict":true,"parameters":`1s}})",
               R"({"type":"function","function":{"name":"`@`#","parameters":`1s}})",
               R"({"type":"custom","custom":{"name":"f`#","format":{"type":"text"}}})"}},
             {'f',
              ",",
              {R"("temperature":1)", R"("stop":["`$","a`#","aab"])", R"("stop":[`*r])",
               R"("logit_bias":{`*b})", form_field, R"("metadata":{"k`$":"`#"})",
               R"("tool_choice":{"type":"function","function":{"name":"f0"}})",
               R"("guided_regex":"`*x")", R"("guided_choice":[`*r])", R"("guided_json":`1s)",
               R"("grammar":"root ::= [a-z]+ \"`$\"")", R"("prompt":"`$")", R"("prompt":[`*d])",
               R"("chat_template_kwargs":{"k`#":`1v})", R"("k`#":`1v)"}},
             {'b', ",", {R"("`#":1)", R"("`#":-100,"`#":5)"}},
             {'d', ",", {"1", "`#", "`#,`#,`#"}}})};
    return made;
}

const language& anthropic_bodies() {
    static const language made{
        R"({"model":"m","max_tokens":9,"messages":[{"role":"user","content":"x"},`*m],)"
        R"("system":[`*p],"tools":[`*t],`*f})",
        with_json({{'m',
                    ",",
                    {R"({"role":"user","content":"x"})", R"({"role":"user","content":[`*u]})",
                     R"({"role":"assistant","content":"`$"},{"role":"user","content":"`$"})",
                     R"({"role":"assistant","content":[`*a]},{"role":"user","content":[`*u]})",
                     R"({"role":"assistant","content":[{"type":"tool_use","id":"t`#","name":"f0",)"
                     R"("input":{"a":`1v}}]},{"role":"user","content":[{"type":"tool_result",)"
                     R"("tool_use_id":"t`=","content":[`*p]}]})"}},
                   {'p',
                    ",",
                    {R"({"type":"text","text":"x"})", R"({"type":"text","text":"`$"})",
                     R"({"type":"text","text":"`$","cache_control":{"type":"ephemeral"}})"}},
                   {'u',
                    ",",
                    {R"({"type":"text","text":"x"})", R"({"type":"text","text":"`$"})",
                     R"({"type":"tool_result","tool_use_id":"t`%","content":"`$"})",
                     R"({"type":"tool_result","tool_use_id":"t`#","content":[`*p]})",
                     R"({"type":"image","source":{"type":"base64","media_type":"image/png",)"
                     R"("data":"`$"}})",
                     R"({"type":"document","source":{"type":"text","media_type":"text/plain",)"
                     R"("data":"`$"},"title":"`$"})",
                     R"({"type":"search_result","source":"`$","title":"`$","content":[`*p]})"}},
                   {'a',
                    ",",
                    {R"({"type":"text","text":"x"})", R"({"type":"text","text":"`$"})",
                     R"({"type":"tool_use","id":"t`#","name":"f`#","input":{"k`#":`1v}})",
                     R"({"type":"thinking","thinking":"`$","signature":"`$"})",
                     R"({"type":"redacted_thinking","data":"`$"})",
                     R"({"type":"server_tool_use","id":"srv`#","name":"web_search",)"
                     R"("input":{"query":"`$"}})"}},
                   {'t',
                    ",",
                    {R"({"name":"f`#","input_schema":{"type":"object"}})",
                     R"({"name":"f`#","description":"`$","input_schema":{"type":"object",)"
                     R"("properties":{`*q}}})",
                     R"({"name":"`@`#","input_schema":`1s})",
                     R"({"type":"web_search_20250305","name":"web_search"})"}},
                   {'f',
                    ",",
                    {R"("temperature":1)", R"("stop_sequences":["`$","a`#"])",
                     R"("stop_sequences":[`*r])", R"("tool_choice":{"type":"tool","name":"f0"})",
                     R"("output_format":{"type":"json_schema","schema":`1s})",
                     R"("metadata":{"user_id":"`$"})", R"("k`#":`1v)"}}})};
    return made;
}

namespace {

std::vector<piece_kind> items() {
    return with_json(
        {{'i',
          ",",
          {R"({"role":"user","content":"x"})", R"({"role":"user","content":"`$"})",
           R"({"role":"user","content":[`*p]})",
           R"({"type":"message","role":"assistant","content":[`*o]})",
           R"({"type":"message","role":"developer","content":[`*p]})",
           R"({"type":"function_call","call_id":"c`#","name":"f0","arguments":"{\"a\":`#}"},)"
           R"({"type":"function_call_output","call_id":"c`=","output":"`$"})",
           R"({"type":"function_call","call_id":"c`#","name":"f`#","arguments":"`$"},)"
           R"({"type":"function_call_output","call_id":"c`=","output":[`*p]})",
           R"({"type":"function_call_output","call_id":"c`%","output":"`$"})",
           R"({"type":"reasoning","id":"r`#","summary":[{"type":"summary_text","text":"`$"}]})",
           R"({"type":"reasoning","id":"r`#","summary":[],"encrypted_content":"`$"})",
           R"({"type":"item_reference","id":"i`#"})",
           R"({"type":"custom_tool_call","call_id":"c`#","name":"f`#","input":"`$"},)"
           R"({"type":"custom_tool_call_output","call_id":"c`=","output":"`$"})",
           R"({"type":"local_shell_call","id":"l`#","call_id":"c`#","status":"completed",)"
           R"("action":{"type":"exec","command":[`*r],"env":{}}})",
           R"({"type":"web_search_call","id":"w`#","status":"completed",)"
           R"("action":{"type":"search","query":"`$"}})",
           R"({"type":"compaction","encrypted_content":"`$"})"}},
         {'p',
          ",",
          {R"({"type":"input_text","text":"x"})", R"({"type":"input_text","text":"`$"})",
           R"({"type":"input_image","image_url":"data:image/png;base64,`$"})",
           R"({"type":"input_file","filename":"f`#","file_data":"`$"})"}},
         {'o',
          ",",
          {R"({"type":"output_text","text":"x","annotations":[]})",
           R"({"type":"output_text","text":"`$","annotations":[`*v]})",
           R"({"type":"refusal","refusal":"`$"})"}},
         {'t',
          ",",
          {R"({"type":"function","name":"f`#","parameters":{"type":"object"}})",
           R"({"type":"function","name":"f`#","description":"`$","parameters":`1s})",
           R"({"type":"function","name":"f`#","strict":true,)"
           R"("parameters":{"type":"object","properties":{`*q}}})",
           R"({"type":"custom","name":"f`#","format":{"type":"grammar","syntax":"lark",)"
           R"("definition":"start: \"`$\""}})",
           R"({"type":"custom","name":"f`#","format":{"type":"grammar","syntax":"regex",)"
           R"("definition":"`*x"}})",
           R"({"type":"web_search"})", R"({"type":"namespace","name":"n`#","tools":[`*t]})"}},
         {'f',
          ",",
          {R"("temperature":1)",
           R"("text":{"format":{"type":"json_schema","name":"a","schema":`1s}})",
           R"("metadata":{"k`#":"`$"})", R"("instructions":"`$")", R"("conversation":"conv_`#")",
           R"("previous_response_id":"resp_`#")", R"("include":[`*r])",
           R"("tool_choice":{"type":"function","name":"f0"})", R"("k`#":`1v)"}}});
}

}  // namespace

const language& responses_bodies() {
    static const language made{
        R"({"model":"m","input":[{"role":"user","content":"x"},`*i],"tools":[`*t],`*f})", items()};
    return made;
}

const language& response_items() {
    static const language made{R"({"items":[`*i],"metadata":{"a":"`$"}})", items()};
    return made;
}

const language& ollama_bodies() {
    static const language made{
        R"({"model":"m","messages":[{"role":"user","content":"x"},`*m],"tools":[`*t],)"
        R"("prompt":"`$",`*f})",
        with_json(
            {{'m',
              ",",
              {R"({"role":"user","content":"x"})", R"({"role":"user","content":"`$"})",
               R"({"role":"user","content":"`$","images":["`$"]})",
               R"({"role":"system","content":"`$"})",
               R"({"role":"assistant","content":"`$","thinking":"`$","tool_calls":[`*c]})",
               R"({"role":"tool","content":"`$","tool_name":"f`#"})"}},
             {'c',
              ",",
              {R"({"function":{"name":"f0","arguments":{}}})",
               R"({"function":{"name":"f`#","arguments":{"a":[`*v],"b":`1v}}})"}},
             {'t',
              ",",
              {R"({"type":"function","function":{"name":"f`#","parameters":{"type":"object"}}})",
               R"({"type":"function","function":{"name":"f`#","description":"`$",)"
               R"("parameters":`1s}})"}},
             {'f',
              ",",
              {R"("stream":false)", R"("options":{"stop":["`$","a`#"],"k`#":`#})",
               R"("options":{"stop":[`*r]})", R"("format":`1s)", R"("context":[`*v])",
               R"("system":"`$")", R"("k`#":`1v)"}}})};
    return made;
}

const language& native_bodies() {
    static const language made{
        R"({"agent_id":"a","prompt":"x",`*f,"max_tokens":9})",
        with_json(
            {{'m',
              ",",
              {R"({"role":"user","content":"x"})", R"({"role":"user","content":"`$"})",
               R"({"role":"assistant","content":"`$"})", R"({"role":"system","content":"`$"})",
               R"({"role":"user","content":[{"type":"text","text":"`$"}]})"}},
             {'t',
              ",",
              {R"({"type":"function","function":{"name":"f`#"}})",
               R"({"type":"function","function":{"name":"f`#","parameters":`1s}})"}},
             {'f',
              ",",
              {R"("append":false)", R"("messages":[`*m])", R"("tools":[`*t])",
               R"("stop_sequences":[`*r])", R"("stop":["`$","a`#"])", R"("system":"`$")",
               form_field, R"("type":"`$")", R"("metadata":{"k`#":"`$"})", R"("name":"`$")",
               R"("choices":[`*r])", R"("ranking":[`*r])", R"("content":"`$")",
               R"("question":"`$")", R"("message":"`$")", R"("yaml":"id: `$")", R"("k`#":`1v)"}}})};
    return made;
}

const language& session_bodies() {
    static const language made{
        R"({"agents":[`*a],"initial_prompt":"`$",`*f})",
        with_json(
            {{'a',
              ",",
              {R"({"agent_id":"a`#","display_name":"A`#"})",
               R"({"agent_id":"a`#","display_name":"A`#","system_prompt":"`$","role":"critic"})",
               R"({"agent_id":"a`#","display_name":"A`#","lifecycle":"permanent"})"}},
             {'l',
              ",",
              {R"({"sender_id":"s","sender_name":"S","content":"x"})",
               R"({"sender_id":"s`#","sender_name":"S`#","content":"`$"})"}},
             {'o', ",", {R"("a0":[`*l])", R"("a`#":[`*l])"}},
             {'w', ",", {R"("a0":"x")", R"("a`#":"`$")"}},
             {'f',
              ",",
              {R"("max_turns":9)", R"("prior_agent_messages":{`*o})",
               R"("per_agent_prompts":{`*w})", R"("debate_format":"`$")",
               R"("persistent_cache_prefix":"`$")", R"("topology":"broadcast")",
               R"("k`#":`1v)"}}})};
    return made;
}

const language& mcp_messages() {
    static const language made{
        R"({"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"append_to_agent",)"
        R"("arguments":{"agent_id":"a","text":"`$"},`*f}})",
        with_json({{'f', ",", {R"("_meta":{`*k})", R"("k`#":`1v)", R"("k`#":"`$")"}},
                   {'k', ",", {R"("k`#":`1v)", R"("k`#":"`$")"}}})};
    return made;
}

}  // namespace semantic::cost
