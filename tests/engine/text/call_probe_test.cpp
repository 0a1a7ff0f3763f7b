// SPDX-License-Identifier: Apache-2.0
// Goal: the form in which a template writes calls is the one that reads them back, so that edited
// and unheard-of templates are taken for what they do and not for what they look like.

#include "engine/text/template/call_probe.hpp"

#include <gtest/gtest.h>

#include <string>

#include "engine/text/template/own_template.hpp"
#include "engine/text/template/probe/probe_conversations.hpp"

namespace semantic::engine {
namespace {

/// Turns as <|role|>text<|end|>, with `calls` as the form of an assistant's calls.
std::string turns_with(const std::string& calls) {
    return "{{ bos_token }}{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}"
           "{{ '<|' + m.role + '|>' + m.content }}{% if m.tool_calls %}" +
           calls +
           "{% endif %}{{ '<|end|>' }}{% endfor %}"
           "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}";
}

std::string each(const std::string& call) {
    return "{% for c in m.tool_calls %}{% set f = c.function %}" + call + "{% endfor %}";
}

answer_format found_in(const std::string& source) {
    auto made = own_template::make(source, {"<s>", "</s>"});
    if (!made) throw std::runtime_error(made.error().what);
    return made->answers();
}

std::string parameters(const std::string& open, const std::string& close) {
    return "{% for k, v in f.arguments.items() %}{{ '" + open + "' + k + '" + close +
           "' }}{{ v if v is string else v | tojson }}";
}

std::string olmo_calls() {
    return "{{ '<function_calls>' }}" +
           each(
               "{{ f.name + '(' }}{% for k, v in f.arguments.items() %}"
               "{{ k + '=' + v | tojson }}{{ '' if loop.last else ', ' }}"
               "{% endfor %}{{ ')' }}{{ '' if loop.last else '\\n' }}") +
           "{{ '</function_calls>' }}";
}

TEST(call_probe, a_form_is_found_by_what_a_template_writes) {
    const std::string object = "{{ {'name': f.name, 'arguments': f.arguments} | tojson }}";
    const std::pair<call_format, std::string> cases[] = {
        {call_format::hermes, each("{{ '<tool_call>\\n' }}" + object + "{{ '\\n</tool_call>' }}")},
        {call_format::qwen_xml,
         each("{{ '\\n<tool_call>\\n<function=' + f.name + '>\\n' }}" +
              parameters("<parameter=", ">\\n") +
              "{{ '\\n</parameter>\\n' }}{% endfor %}{{ '</function>\\n</tool_call>' }}")},
        {call_format::glm,
         each("{{ '<tool_call>' + f.name }}" + parameters("<arg_key>", "</arg_key><arg_value>") +
              "{{ '</arg_value>' }}{% endfor %}{{ '</tool_call>' }}")},
        {call_format::llama3,
         "{% set f = m.tool_calls[0].function %}"
         "{{ {'name': f.name, 'parameters': f.arguments} | tojson }}"},
        {call_format::mistral,
         each("{{ '[TOOL_CALLS]' + f.name + '[ARGS]' }}{{ f.arguments | tojson }}")},
        {call_format::deepseek, "{{ '<｜tool▁calls▁begin｜>' }}" +
                                    each("{{ '<｜tool▁call▁begin｜>' + f.name + '<｜tool▁sep｜>' }}"
                                         "{{ f.arguments | tojson }}{{ '<｜tool▁call▁end｜>' }}") +
                                    "{{ '<｜tool▁calls▁end｜>' }}"},
        {call_format::lfm2,
         "{{ '<|tool_call_start|>[' }}" +
             each("{{ f.name + '(' }}{% for k, v in f.arguments.items() %}{{ k + '=' }}"
                  "{{ '\"' + v + '\"' if v is string else v }}{{ '' if loop.last else ', ' }}"
                  "{% endfor %}{{ ')' }}{{ '' if loop.last else ', ' }}") +
             "{{ ']<|tool_call_end|>' }}"},
        {call_format::olmo, olmo_calls()},
        {call_format::kimi,
         "{{ '<|tool_calls_section_begin|>' }}" +
             each("{{ '<|tool_call_begin|>functions.' + f.name + ':' + loop.index0 | string + "
                  "'<|tool_call_argument_begin|>' }}{{ f.arguments | tojson }}"
                  "{{ '<|tool_call_end|>' }}") +
             "{{ '<|tool_calls_section_end|>' }}"},
        {call_format::seed,
         each("{{ '\\n<seed:tool_call>\\n<function=' + f.name + '>\\n' }}" +
              parameters("<parameter=", ">") +
              "{{ '</parameter>\\n' }}{% endfor %}{{ '</function>\\n</seed:tool_call>' }}")},
        {call_format::minimax, "{{ '\\n<minimax:tool_call>\\n' }}" +
                                   each("{{ '<invoke name=\"' + f.name + '\">\\n' }}" +
                                        parameters("<parameter name=\"", "\">") +
                                        "{{ '</parameter>\\n' }}{% endfor %}{{ '</invoke>\\n' }}") +
                                   "{{ '</minimax:tool_call>' }}"},
        {call_format::dsml,
         "{{ '<｜DSML｜tool_calls>\\n' }}" +
             each("{{ '<｜DSML｜invoke name=\"' + f.name + '\">\\n' }}"
                  "{% for k, v in f.arguments.items() %}"
                  "{{ '<｜DSML｜parameter name=\"' + k + '\" string=\"' + ('true' if v is string "
                  "else 'false') + '\">' }}{{ v if v is string else v | tojson }}"
                  "{{ '</｜DSML｜parameter>\\n' }}{% endfor %}{{ '</｜DSML｜invoke>\\n' }}") +
             "{{ '</｜DSML｜tool_calls>' }}"},
        {call_format::minicpm,
         each("{{ '<function name=\"' + f.name + '\">' }}" + parameters("<param name=\"", "\">") +
              "{{ '</param>' }}{% endfor %}{{ '</function>' }}")},
        {call_format::granite,
         "{{ '<|tool_call|>[' }}" + each(object + "{{ '' if loop.last else ', ' }}") + "{{ ']' }}"},
        {call_format::nemotron, "{{ '<TOOLCALL>[' }}" +
                                    each(object + "{{ '' if loop.last else ', ' }}") +
                                    "{{ ']</TOOLCALL>' }}"},
        {call_format::tool_calls,
         "{{ '<tool_calls>\\n' }}" + each(object + "{{ '\\n' }}") + "{{ '</tool_calls>' }}"},
        {call_format::gigachat, each("{{ '<|function_call|>' }}" + object)},
        {call_format::gemma4,
         each("{{ '<|tool_call>call:' + f.name + '{' }}{% for k, v in f.arguments.items() %}"
              "{{ k + ':' }}{{ '<|\"|>' + v + '<|\"|>' if v is string else v }}"
              "{{ '' if loop.last else ',' }}{% endfor %}{{ '}<tool_call|>' }}")},
    };
    for (const auto& [format, calls] : cases)
        EXPECT_EQ(name_of(found_in(turns_with(calls)).calls), name_of(format)) << calls;
}

TEST(call_probe, marks_of_a_form_count_for_nothing_where_the_calls_have_another) {
    const std::string words = "{# <tool_call> <function= <parameter= [TOOL_CALLS] #}";
    EXPECT_EQ(found_in(words + turns_with(each("{{ '<|tool_call|>[{\"name\": \"' + f.name + "
                                               "'\", \"arguments\": ' }}{{ f.arguments | tojson }}"
                                               "{{ '}]' }}")))
                  .calls,
              call_format::granite);
    // As MiniMax-M3 does: the tags of a known form with another mark in front of each.
    const std::string other = each(
        "{{ '][<tool_call>\\n][<invoke name=\"' + f.name + '\">' }}"
        "{% for k, v in f.arguments.items() %}{{ '][<' + k + '>' + v | string + '][</' + k + "
        "'>' }}{% endfor %}{{ '][</invoke>\\n][</tool_call>' }}");
    EXPECT_EQ(found_in(words + turns_with(other)).calls, call_format::none);
    // A form that loses a value is none.
    EXPECT_EQ(found_in(turns_with(each("{{ '<tool_call>{\"name\": \"' + f.name + '\", "
                                       "\"arguments\": {\"k\": \"' + f.arguments.k + "
                                       "'\"}}</tool_call>' }}")))
                  .calls,
              call_format::none);
    // Two calls in one mark, which its readers take for one.
    EXPECT_EQ(found_in(turns_with("{{ '<tool_call>' }}" +
                                  each("{{ {'name': f.name, 'arguments': f.arguments} | tojson }}"
                                       "{{ ' and ' }}") +
                                  "{{ '</tool_call>' }}"))
                  .calls,
              call_format::none);
}

TEST(call_probe, a_template_that_leaves_calls_out_is_known_by_its_marks) {
    EXPECT_EQ(found_in(turns_with("") + "{# <tool_call> #}").calls, call_format::hermes);
    EXPECT_EQ(found_in(turns_with("")).calls, call_format::none);
    EXPECT_EQ(found_in(turns_with("{{ m.tool_calls.append(1) }}") + "{# <|tool_call|> #}").calls,
              call_format::granite);
}

TEST(call_probe, a_template_that_takes_one_call_a_message_has_its_form) {
    const std::string one =
        "{% if m.tool_calls | length != 1 %}{{ raise_exception('One call at a time!') }}{% endif %}"
        "{% set f = m.tool_calls[0].function %}"
        "{{ {'name': f.name, 'parameters': f.arguments} | tojson }}";
    EXPECT_EQ(found_in(turns_with(one)).calls, call_format::llama3);
}

TEST(call_probe, of_two_forms_that_read_a_call_the_one_counts_that_leaves_less_text) {
    const std::string call = each(
        "{{ '\n<seed:tool_call>\n<function=' + f.name + '>\n' }}" + parameters("<parameter=", ">") +
        "{{ '</parameter>\n' }}{% endfor %}{{ '</function>\n</seed:tool_call>' }}");
    const auto own = own_template::make(turns_with(call), {"<s>", "</s>"});
    ASSERT_TRUE(own);
    const conversation chat = probe::with_typed_calls(1);
    std::string text = probe::asked;
    text += "<|end|><|assistant|><seed:tool_call><function=" + std::string(probe::tool_name) +
            "><parameter=k>" + probe::argument +
            "71</parameter><parameter=n>71</parameter>"
            "</function></seed:tool_call><|end|>" +
            probe::returned;
    const rendered_calls made{chat, text, "<|assistant|>"};
    EXPECT_TRUE(reads_back(call_format::qwen_xml, made));
    EXPECT_TRUE(reads_back(call_format::seed, made));
    EXPECT_EQ(own->answers().calls, call_format::seed);
}

}  // namespace
}  // namespace semantic::engine
