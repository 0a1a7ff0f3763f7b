// SPDX-License-Identifier: Apache-2.0
#include "tests/cost/languages.hpp"

namespace semantic::cost {

const language& scenarios() {
    static const language made{
        "id: s\ntitle: T\nagents:\n  a: {display_name: A}\n  b: {display_name: B}\n`*a\n"
        "phases:\n  - {name: p, label: l, agents: [a, b], initial_prompt: hi}\n"
        "`1p\n`1p\n`1p\n`1p\n`*o",
        {{'a',
          "\n",
          {"  a`#: {display_name: A`=}", "  a`#: {display_name: A`=, system_prompt: \"`$\"}",
           "  a`#:\n    display_name: A`=\n    role: participant\n    system_prompt: >-\n      `$",
           "  a`#: {display_name: A`=, `*k}"}},
         {'n', ", ", {"a", "a, b", "b, a"}},
         {'p',
          "\n",
          {"  - {name: p`#, label: l, agents: [a], initial_prompt: hi}",
           "  - {name: p`#, label: \"l\", agents: [`1n], auto_rounds: 1, initial_prompt: \"`$\"}",
           "  - {name: p`#, label: l, agents: [a, b], auto_rounds: 1, "
           "initial_prompt_template: '`*t'}",
           "  - name: p`#\n    label: l\n    agents: [b, a]\n    per_agent_prompt_templates:\n"
           "      a: >-\n        `*t\n      b: '`*t'",
           "  - {name: p`#, label: l, agents: [a], initial_prompt: hi, "
           "parse_choice: {pattern: '`*x', labels: [`*n]}}",
           "  - {name: p`#, label: l, agents: [b], initial_prompt: hi, `*k}"}},
         {'t', " ", {"x", "`$", "${p.messages[a]}", "${p.messages[b]}"}},
         {'x', "", {"a", "`$", "[a-z]", "(`*x)", "(`*x)*", "(`1x|`1x)", "(`*x){1,`%}", ".*"}},
         {'k', ", ", {"k`#: v", "k`#: [`*l]", "k`#: {`*k}", "k`#: \"`$\""}},
         {'l', ", ", {"a", "`#", "[`*l]", "{`*k}", "\"`$\""}},
         {'o',
          "\n",
          {"x`#: y", "x`#: {`*k}", "z`#: [`*l]", "z`#: |\n  `$", "? [`*l]\n: {`*k}",
           "x`#: {type: parse_choice, pattern: '`*x', choices: [`*n]}"}}}};
    return made;
}

// What a scenario may not have, and a reader of YAML meets first: anchors, aliases and merges.
const language& yaml_texts() {
    static const language made{
        "id: s\ntitle: \"`$\"\nagents:\n  a: &a {display_name: A}\n`*a\n`*o",
        {{'a',
          "\n",
          {"  a`#: {display_name: A}", "  a`#: &y`# {display_name: \"A`#\"}", "  a`#: *a",
           "  a`#: {`*k}"}},
         {'k', ", ", {"k`#: v", "k`#: [`*l]", "k`#: {`*k}", "<<: *a", "<<: *y`#", "k`#: *a"}},
         {'l', ", ", {"a", "`#", "[`*l]", "{`*k}", "&x`# [a, b, *x`=]", "*a", "*x`%", "\"`$\""}},
         {'o',
          "\n",
          {"x: y", "outcome: {`*k}", "z`#: [`*l]", "z`#: &z`= [`*l]", "? [`*l]\n: {`*k}"}}}};
    return made;
}

const language& call_texts() {
    static const language made{
        "`*c",
        {{'c',
          "",
          {"a",
           "`$",
           "<tool_call>",
           "</tool_call>",
           "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {`*m}}\n</tool_call>",
           "{\"name\": \"ping\", \"arguments\": {\"a\": [`*v]}}",
           "{\"name\": \"ping\", \"parameters\": {\"a\": \"`$\"}}",
           "<function=get_weather>\n<parameter=city>\n`$\n</parameter>\n",
           "</function>",
           "<arg_key>city</arg_key>\n<arg_value>`$</arg_value>\n",
           "[TOOL_CALLS][",
           "[TOOL_CALLS][{\"name\": \"ping\", \"arguments\": {`*m}}]",
           "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>ping\n"
           "``````json\n{`*m}\n``````<｜tool▁call▁end｜>",
           "<|channel|>commentary to=functions.ping <|constrain|>json<|message|>{`*m}<|call|>",
           "<|channel|>analysis<|message|>`$<|end|><|start|>assistant",
           "<start_function_call>call:ping{a:<escape>`$<escape>}",
           "<|tool_call>call:ping{a:<|\"|>`$<|\"|>}<tool_call|>",
           "``````tool_code\nget_weather(city=\"`$\", days=`#)\n``````",
           "get_weather(",
           "[[[[",
           "{\"a\":{\"b\":",
           "\\\"\\\\u00e9",
           "``````json\n",
           "<think>",
           "</think>",
           "\n"}},
         {'m', ", ", {"\"a\": 1", "\"a`#\": `1v", "\"city\": \"`$\"", "\"a\\u00e9`#\": [`*v]"}},
         {'v', ", ", {"1", "`#", "\"`$\"", "[`*v]", "{`*m}", "null", "\"\\n\\u00e9`#\""}}}};
    return made;
}

const language& contents() {
    static const language made{"`*w",
                               {{'w', "", {"a",          "`$",           " ",
                                           "\n",         "\n\n\n   ",    "日本語",
                                           "é",          "<|im_start|>", "<|im_end|>",
                                           "<|eot_id|>", "'s",           "ABC",
                                           "1234567",    "\t",           "😀",
                                           "<think>",    "word ",        "`#",
                                           "!!!???",     "\xc3",         "    if (x) {\n"}}}};
    return made;
}

const language& templates() {
    static const language made{
        "`*b",
        {{'b',
          "",
          {"x", "`$", "{{ `1e }}", "{% for i in `1e %}`*b{% endfor %}",
           "{% for m in messages %}{{ m.content }}`*b{% endfor %}",
           "{% for i in range(`%) %}`*b{% endfor %}",
           "{% if `1e %}`*b{% elif `1e %}`*b{% else %}`*b{% endif %}", "{% set n`# = `1e %}",
           "{% set s = s + s %}", "{% macro f`#(a, b=`1e) %}`*b{% endmacro %}{{ f`=(`1e) }}",
           "{%- set ns = namespace(a=s) -%}{% for i in l %}{% set ns.a = ns.a + `1e %}{% endfor %}"
           "{{ ns.a }}",
           "{# `$ #}", "{% raw %}`$ {{ {% endraw %}"}},
         {'e',
          ", ",
          {"s",
           "'`$'",
           "n",
           "l",
           "d",
           "messages",
           "tools",
           "f",
           "`#",
           "[`*e]",
           "{'a`#': `1e}",
           "(`1e)",
           "`1e ~ `1e",
           "s * `%",
           "`1e + `1e",
           "`1e if `1e else `1e",
           "not `1e",
           "`1e == `1e",
           "`1e in `1e",
           "`1e | string",
           "`1e | tojson",
           "l | join(s)",
           "`1e | length",
           "s | replace('a', s)",
           "s.split('a')",
           "`1e | tojson(indent=`%)",
           "s | indent(`%)",
           "messages | map(attribute='content') | list",
           "l | sort",
           "range(`%) | list",
           "s[::-1]",
           "`1e is defined and `1e"}}}};
    return made;
}

const language& object_lists() {
    static const language made{
        "<?xml version=\"1.0\"?><ListBucketResult><IsTruncated>false</IsTruncated>`*c"
        "</ListBucketResult>",
        {{'c',
          "",
          {"<Contents><Key>p/a</Key><Size>1</Size></Contents>",
           "<Contents><Key>p/a`#</Key><Size>`#</Size><ETag>\"`$\"</ETag></Contents>",
           "<Contents><Key>p/`$</Key><Size>`#</Size><Owner>`*x</Owner></Contents>",
           "<NextContinuationToken>`$</NextContinuationToken>", "<`@>`*x</`@>",
           "<CommonPrefixes>`*x</CommonPrefixes>", "&amp;&lt;&#`#;", "<!-- `$ -->",
           "<![CDATA[`$]]>"}},
         {'x', "", {"a", "`$", "<`@>`*x</`@>", "<a`#/>", "&quot;"}}}};
    return made;
}

}  // namespace semantic::cost
