#include "tests/cost/languages.hpp"

namespace semantic::cost {

const language& schemas() {
    static const language made{
        R"({"$defs":{"n0":^,"n1":^,"n2":{"type":"object","properties":{~}}},"allOf":[~],)"
        R"("anyOf":[^]})",
        ",",
        {R"({"type":"string"})",
         R"("p#":^)",
         R"("p$":^)",
         R"({"$ref":"#/$defs/@"})",
         R"({"$ref":"#/$defs/@","minLength":%})",
         R"({"$ref":"#/$defs/@","required":["r#"]})",
         R"({"$ref":"#"})",
         R"({"allOf":[~]})",
         R"({"anyOf":[~]})",
         R"({"oneOf":[~]})",
         R"({"anyOf":[~],"properties":{~}})",
         R"({"type":"object","properties":{~}})",
         R"({"type":"object","properties":{~},"additionalProperties":true})",
         R"({"type":"object","properties":{~},"additionalProperties":^})",
         R"({"type":"object","properties":{~},"additionalProperties":false,)"
         R"("minProperties":%,"maxProperties":%})",
         R"({"type":"object","properties":{"$":^},"additionalProperties":true,"required":["$"]})",
         R"({"type":"object","required":["r#","r#","r%"]})",
         R"({"type":"object","properties":{"k":{"const":"c#"}},"required":["k"]})",
         R"({"properties":{"a":{"minLength":#},"b":^}})",
         R"({"patternProperties":{"$":^}})",
         R"({"propertyNames":{"enum":["r#","$"]}})",
         R"({"type":"array","items":^,"minItems":%,"maxItems":%})",
         R"({"type":"array","prefixItems":[~],"items":^})",
         R"({"type":"array","uniqueItems":true,"items":{"enum":[#,#,#,"$",#]},"minItems":%})",
         R"({"enum":[#,#,#,#])",
         R"({"enum":["$","$#",[#],{"a":#}]})",
         R"({"type":["string","number","object","array","null"]})",
         R"({"type":"string","minLength":%,"maxLength":%})",
         R"({"type":"string","maxLength":1000,"pattern":"$"})",
         R"({"type":"string","pattern":"(a{%}b|[a-c$]{%}){%}"})",
         R"({"type":"string","pattern":"^(?=.*a)(?!b)(.*c){9}$","minLength":%})",
         R"({"pattern":"^[a-z]*[$#]+x{900}$","format":"date-time"})",
         R"({"type":"string","format":"ipv6","maxLength":#})",
         R"({"type":"string","format":"email","minLength":#})",
         R"({"type":"number","multipleOf":0.251,"minimum":#})",
         R"({"type":"number","minimum":-#.123456789,"maximum":#9999.987654321})",
         R"({"type":"integer","multipleOf":255})",
         R"({"not":[~]})",
         R"({"allOf":[{"$ref":"#/$defs/@"}],"title":"$"})",
         R"({"allOf":[{"$ref":"#/$defs/@"},{"$ref":"#/$defs/@"},^]})",
         R"("$defs":{"@":^,"@":^})",
         R"(#,#,#,#,#,#,#,#)",
         R"({"const":#})"}};
    return made;
}

const language& grammars() {
    static const language made{
        "root ::= ~\nn0 ::= \"a\" n0 | \"b\" | \"\"\nn1 ::= n0 n0 | [a-z]\n~\n",
        " ",
        {"\"a\"",
         "\"$\"",
         "[a-z]",
         "[^a#]",
         "[é-ü日-本\\U00010000-\\U0010ffff]",
         "[$]",
         "@",
         ".",
         "(~)",
         "(~)*",
         "(~)+",
         "(~)?",
         "(~){%}",
         "(~){1,%}",
         "(^ | ^)",
         "(^ | ^ | ^ | \"\")",
         "\"a\"?",
         "\"a\"{9999}",
         "((\"a\"?){99}){99}",
         "[a-z]{0,9999}",
         "***",
         "|",
         "\nn# ::= ~",
         "\nn# ::= \"a\" n# | \"a\" @ @ | \"\"",
         "\nn# ::= @ @ @",
         "\nn# ::= @ | @ | @",
         "\nr$ ::= ^",
         "# $\n",
         "\n\n   \n",
         "\"\\x41\\u00e9\""}};
    return made;
}

const language& expressions() {
    static const language made{
        "~", "", {"a",       "$",          "[a-z]",      "[^a-c$]",  "\\d",      "\\W",
                  "é日",     ".",          "(~)",        "(?:~)",    "(~)*",     "(~)+",
                  "(~)?",    "(~){%}",     "(~){1,999}", "(^|^)",    "(^|^|^|)", "a?",
                  "a{1000}", "(a?){1000}", ".*",         ".*.*",     "[$]",      "|",
                  "^$",      "(?=~)",      "(?!~)",      "x{0,999}", "(a|aa)+",  "((a*)*)*",
                  "\\u00e9", "[\\w\\s]",   "(a|b#)*",    "[ab#]",    "\\\\"}};
    return made;
}

const language& scenarios() {
    static const language made{
        "id: s\nname: $\nagents:\n~\nphases:\n~\n",
        "\n",
        {"  - id: a#", "  - id: a#\n    name: $\n    system: $", "  - id: @\n    prompt: {~}",
         "  - id: p#\n    agents: [~]",
         "  - id: p#\n    agents: [a0, a1, a#]\n    template: \"$ {{@}} {{a#}}\"",
         "    payoff:\n      rows: [~]\n      cells: [~]", "  - &x# [a, b, c, d, *x#]", "  - *x%",
         "  a#: &y# {k#: ^, k%: ^}", "a#, b#, $", "[~]", "{~}", "[[[[[[~]]]]]]", "? ^\n: ^",
         "\"$\"", "|\n  $", "<<: *x#", "k#: v#"}};
    return made;
}

const language& openai_bodies() {
    static const language made{
        R"({"model":"m","messages":[{"role":"user","content":"x"},~],)"
        R"("tools":[{"type":"function","function":{"name":"f0","parameters":{}}},~],~})",
        ",",
        {R"({"role":"user","content":"$"})",
         R"({"role":"user","content":[~]})",
         R"({"type":"text","text":"$"})",
         R"({"role":"system","content":"s#"})",
         R"({"role":"assistant","content":null,"tool_calls":[~]})",
         R"({"id":"call_#","type":"function","function":{"name":"f0",)"
         R"("arguments":"{\"a\":[#,$]}"}})",
         R"({"role":"assistant","content":"$","reasoning_content":"$",)"
         R"("tool_calls":[{"id":"c#","type":"function","function":{"name":"f0",)"
         R"("arguments":"{}"}}]})",
         R"({"role":"tool","tool_call_id":"c#","content":"$"})",
         R"({"role":"tool","tool_call_id":"c%","content":[~]})",
         R"({"type":"function","function":{"name":"f#","description":"$",)"
         R"("parameters":{"type":"object","properties":{"p#":{"type":"string"}}}}})",
         R"({"type":"function","function":{"name":"@","parameters":{"a":[^]}}})",
         R"("stop":["$","a#","aab"])",
         R"("logit_bias":{"#":1,"#":2})",
         R"("response_format":{"type":"json_schema","json_schema":{"name":"a",)"
         R"("schema":{"a":[~]}}})",
         R"("k#":{"k#":^})",
         R"("metadata":{"k$":"#"})",
         R"([~])",
         R"({"a":^})",
         R"("$")",
         R"(#)"}};
    return made;
}

const language& anthropic_bodies() {
    static const language made{
        R"({"model":"m","max_tokens":9,"messages":[{"role":"user","content":"x"},~],)"
        R"("system":[~],"tools":[~],~})",
        ",",
        {R"({"type":"text","text":"$"})", R"({"role":"user","content":[~]})",
         R"({"role":"assistant","content":[~]})",
         R"({"role":"assistant","content":[{"type":"tool_use","id":"t#","name":"f#",)"
         R"("input":{"a":[#,#]}}]})",
         R"({"role":"user","content":[{"type":"tool_result","tool_use_id":"t#","content":[~]}]})",
         R"({"type":"tool_use","id":"t#","name":"f#","input":{"k#":^}})",
         R"({"type":"tool_result","tool_use_id":"t%","content":"$"})",
         R"({"type":"thinking","thinking":"$","signature":"$"})",
         R"({"type":"image","source":{"type":"base64","media_type":"image/png","data":"$"}})",
         R"({"type":"document","source":{"type":"text","media_type":"text/plain","data":"$"}})",
         R"({"name":"f#","description":"$","input_schema":{"type":"object",)"
         R"("properties":{"a#":{"type":"string"}}}})",
         R"({"name":"@","input_schema":{"a":[^]}})", R"("stop_sequences":["$","a#"])",
         R"("k#":{"k#":^})", R"([~])", R"(#)"}};
    return made;
}

const language& responses_bodies() {
    static const language made{
        R"({"model":"m","input":[{"role":"user","content":"x"},~],"tools":[~],~})",
        ",",
        {R"({"role":"user","content":"$"})", R"({"role":"user","content":[~]})",
         R"({"type":"input_text","text":"$"})",
         R"({"type":"output_text","text":"$","annotations":[]})",
         R"({"type":"message","role":"assistant","content":[~]})",
         R"({"type":"function_call","call_id":"c#","name":"f#","arguments":"{\"a\":#}"})",
         R"({"type":"function_call_output","call_id":"c#","output":"$"})",
         R"({"type":"function_call_output","call_id":"c%","output":[~]})",
         R"({"type":"reasoning","id":"r#","summary":[{"type":"summary_text","text":"$"}]})",
         R"({"type":"item_reference","id":"i#"})",
         R"({"type":"custom_tool_call","call_id":"c#","name":"f#","input":"$"})",
         R"({"type":"function","name":"f#","description":"$","parameters":{"type":"object"}})",
         R"({"type":"custom","name":"f#","format":{"type":"grammar","syntax":"lark",)"
         R"("definition":"$"}})",
         R"({"type":"web_search"})",
         R"("text":{"format":{"type":"json_schema","name":"a","schema":{"a":[~]}}})",
         R"("metadata":{"k#":"$"})", R"("k#":{"k#":^})", R"([~])", R"(#)"}};
    return made;
}

const language& ollama_bodies() {
    static const language made{
        R"({"model":"m","messages":[{"role":"user","content":"x"},~],"tools":[~],"prompt":"$",~})",
        ",",
        {R"({"role":"user","content":"$"})",
         R"({"role":"assistant","content":"$","tool_calls":[~]})",
         R"({"function":{"name":"f#","arguments":{"a":[#,#]}}})",
         R"({"role":"tool","content":"$","tool_name":"f#"})",
         R"({"type":"function","function":{"name":"f#","parameters":{"a":[^]}}})",
         R"("options":{"stop":["$","a#"],"k#":#})", R"("format":{"a":[~]})", R"("k#":{"k#":^})",
         R"([~])", R"(#)"}};
    return made;
}

const language& native_bodies() {
    static const language made{
        R"({"messages":[{"role":"user","content":"x"},~],"prompt":"$","agents":[~],)"
        R"("phases":[~],~})",
        ",",
        {R"({"role":"user","content":"$"})", R"({"role":"user","content":[~]})",
         R"({"type":"text","text":"$"})", R"({"id":"a#","name":"$","system":"$"})",
         R"({"id":"p#","agents":["a#","a%"],"prompt":"$ {{a#}}"})", R"("a#")",
         R"("stop":["$","a#"])", R"("lines":[~])", R"({"agent":"a#","text":"$"})",
         R"("k#":{"k#":^})", R"([~])", R"(#)"}};
    return made;
}

const language& call_texts() {
    static const language made{
        "~",
        "",
        {"a",
         "$",
         "<tool_call>",
         "</tool_call>",
         "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {~}}\n</tool_call>",
         "{\"name\": \"ping\", \"arguments\": {\"a\": [~]}}",
         "{\"name\": \"ping\", \"parameters\": {\"a\": \"$\"}}",
         "<function=get_weather>\n<parameter=city>\n$\n</parameter>\n",
         "</function>",
         "<arg_key>city</arg_key>\n<arg_value>$</arg_value>\n",
         "[TOOL_CALLS][",
         "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>ping\n```json\n{~}\n```",
         "<｜tool▁call▁end｜>",
         "<|channel|>commentary to=functions.ping <|constrain|>json<|message|>{~}",
         "<|channel|>analysis<|message|>$<|end|><|start|>assistant",
         "<start_function_call>call:ping{a:<escape>$<escape>}",
         "<|tool_call>call:ping{a:<|\"|>$<|\"|>}<tool_call|>",
         "```tool_code\nget_weather(city=\"$\", days=#)\n```",
         "get_weather(",
         "[[[[",
         "{\"a\":{\"b\":",
         "\\\"\\\\u00e9",
         "```json\n",
         "<think>",
         "</think>",
         "\n"}};
    return made;
}

const language& contents() {
    static const language made{"~", "", {"a",
                                         "$",
                                         " ",
                                         "\n",
                                         "\n\n\n   ",
                                         "日本語",
                                         "é",
                                         "<|im_start|>",
                                         "<|im_end|>",
                                         "<|eot_id|>",
                                         "'s",
                                         "ABC",
                                         "1234567",
                                         "\t",
                                         "😀",
                                         "<think>",
                                         "word ",
                                         "#",
                                         "!!!???",
                                         "\xc3",
                                         "    if (x) {\n"}};
    return made;
}

}  // namespace semantic::cost
