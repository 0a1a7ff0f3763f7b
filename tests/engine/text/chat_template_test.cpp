// SPDX-License-Identifier: Apache-2.0
#include "engine/text/template/chat_template.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <utility>

#include "engine/text/output/json_text.hpp"
#include "tests/engine/text/family_sources.hpp"
#include "tests/engine/text/golden_files.hpp"

namespace semantic::engine {

namespace {

using storage::errc;
using ::testing::HasSubstr;

role role_of(const std::string& name) {
    if (name == "system") return role::system;
    if (name == "user") return role::user;
    return name == "tool" ? role::tool : role::assistant;
}

/// A message as chat completion requests write it.
message message_of(const boost::json::value& json) {
    message made;
    made.from = role_of(text_at(json, "role"));
    std::string content;
    std::vector<std::string> texts;
    if (json.at("content").is_array()) {
        for (const auto& part : json.at("content").as_array())
            texts.push_back(text_at(part, "text"));
    } else {
        content = text_at(json, "content");
        texts.push_back(content);
    }
    if (json.as_object().contains("thinking")) {
        made.parts.emplace_back(thinking_part{text_at(json, "thinking")});
    }
    if (made.from == role::tool) {
        made.parts.emplace_back(tool_result_part{"c", content});
    } else {
        for (const std::string& text : texts) made.parts.emplace_back(text_part{text});
    }
    if (const auto* calls = json.as_object().if_contains("tool_calls")) {
        for (const auto& call : calls->as_array()) {
            const auto& function = call.at("function");
            made.parts.emplace_back(tool_call_part{text_at(call, "id"), text_at(function, "name"),
                                                   to_json_text(function.at("arguments"))});
        }
    }
    return made;
}

conversation conversation_of(const boost::json::value& json, bool first_as_system) {
    conversation made;
    for (const auto& m : json.at("messages").as_array()) {
        made.messages.push_back(message_of(m));
    }
    if (first_as_system && made.messages.front().from == role::system &&
        !std::get<text_part>(made.messages.front().parts.front()).text.empty()) {
        made.system = std::get<text_part>(made.messages.front().parts.front()).text;
        made.messages.erase(made.messages.begin());
    }
    if (json.at("tools").is_null()) return made;
    for (const auto& tool : json.at("tools").as_array()) {
        const auto& function = tool.at("function").as_object();
        tool_definition d;
        d.name = text_at(function, "name");
        if (function.contains("description")) d.description = text_at(function, "description");
        if (const auto* parameters = function.if_contains("parameters")) {
            d.parameters_json = to_json_text(*parameters);
        }
        made.tools.push_back(d);
    }
    return made;
}

chat_template chatml() { return chat_template::make("chatml").value(); }

/// A model folder with these files in it.
std::string folder_with(const std::string& name,
                        const std::vector<std::pair<std::string, std::string>>& files) {
    const auto path = std::filesystem::path(::testing::TempDir()) / ("chat_template_" + name);
    std::filesystem::remove_all(path);
    std::filesystem::create_directories(path);
    for (const auto& [file, text] : files) std::ofstream(path / file) << text;
    return path.string();
}

std::string folder_with(const std::string& name, const std::string& config) {
    return folder_with(name, {{"tokenizer_config.json", config}});
}

/// A tokenizer_config.json whose template is `source`.
std::string config_with(const std::string& source, const char* bos = nullptr) {
    boost::json::object config{{"chat_template", source}};
    if (bos != nullptr) config["bos_token"] = bos;
    return boost::json::serialize(config);
}

chat_template family(const std::string& name) { return chat_template::make(name).value(); }

conversation saying(const std::string& text) {
    conversation chat;
    chat.messages.push_back({role::user, {text_part{text}}});
    return chat;
}

/// A conversation in which the assistant has said `parts` and the user goes on.
conversation after(std::vector<content_part> parts) {
    conversation chat = saying("q");
    chat.messages.push_back({role::assistant, std::move(parts)});
    chat.messages.push_back({role::user, {text_part{"next"}}});
    return chat;
}

/// Expects the tree's own source for a family's template to render the same text.
void expect_source_says(const std::string& name, const conversation& chat,
                        const render_options& options, const std::string& expected) {
    // An own template gets a message's texts as one.
    for (const message& one : chat.messages)
        if (one.from == role::user && one.parts.size() > 1) return;
    // It gets empty parameters where a tool has none, and integers of 64 bits with a sign.
    for (const tool_definition& tool : chat.tools)
        if (tool.parameters_json.empty() ||
            tool.parameters_json.find("18446744073709551615") != std::string::npos)
            return;
    const auto source = interpreted(*find_template_family(name));
    if (!source) return;
    const auto text = source->render(chat, options);
    ASSERT_TRUE(text) << name << ": " << text.error().what;
    EXPECT_EQ(*text, expected) << name;
}

void expect_published(const char* file) {
    const auto cases = read_json(std::string("tests/golden/chat_templates/") + file);
    for (const auto& c : cases.as_array()) {
        const std::string family_name =
            c.as_object().contains("family") ? text_at(c, "family") : "chatml";
        const std::string name = family_name + " " + text_at(c, "case");
        render_options options;
        if (c.as_object().contains("date")) options.date = text_at(c, "date");
        if (const auto* enabled = c.as_object().if_contains("enable_thinking")) {
            options.thinking = enabled->as_bool();
        }
        if (c.as_object().contains("reasoning_effort")) {
            options.reasoning_effort = text_at(c, "reasoning_effort");
        }
        for (const bool first_as_system : {true, false}) {
            const auto text =
                family(family_name).render(conversation_of(c, first_as_system), options);
            ASSERT_TRUE(text) << name << ": " << text.error().what;
            EXPECT_EQ(*text, text_at(c, "expected")) << name;
            expect_source_says(family_name, conversation_of(c, first_as_system), options, *text);
        }
    }
}

}  // namespace

TEST(chat_template, renders_every_family_as_the_published_templates_do) {
    expect_published("published.json");
    expect_published("semantic-tiny.json");
}

// Reasoning, nested schemas, white space, odd roles.
TEST(chat_template, renders_the_far_corners_as_the_published_templates_do) {
    expect_published("published-more.json");
}

// Llama 3.0, Qwen 2.5 Coder, Math and base, the Qwen 3 of July 2025; an empty system text; parts.
TEST(chat_template, renders_the_variants_as_the_published_templates_do) {
    expect_published("published-variants.json");
}

TEST(chat_template, the_embedded_model_is_of_family_chatml) {
    const auto made = chat_template::load(source_path("etc/models/semantic-tiny"));
    ASSERT_TRUE(made) << made.error().what;
    EXPECT_EQ(made->family(), "chatml");
    EXPECT_EQ(made->identity(), "chatml/1");
    EXPECT_EQ(made->stop_tokens().front(), "<|im_end|>");
}

TEST(chat_template, results_inside_a_user_message_come_in_order) {
    conversation chat;
    chat.messages.push_back({role::user,
                             {tool_result_part{"1", "one"}, tool_result_part{"2", "two"},
                              text_part{"Thanks."}, text_part{"More?"}}});
    EXPECT_EQ(*chatml().render(chat),
              "<|im_start|>user\n<tool_response>\none\n</tool_response>\n<tool_response>\ntwo\n"
              "</tool_response><|im_end|>\n<|im_start|>user\nThanks.\nMore?<|im_end|>\n"
              "<|im_start|>assistant\n");
}

TEST(chat_template, thinking_of_earlier_turns_is_left_out) {
    conversation chat;
    chat.messages.push_back({role::user, {text_part{"a"}}});
    chat.messages.push_back({role::assistant, {thinking_part{"hm"}, text_part{"b"}}});
    EXPECT_EQ(*chatml().render(chat),
              "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\nb<|im_end|>\n"
              "<|im_start|>assistant\n");
}

TEST(chat_template, what_cannot_be_expressed_is_a_bad_value) {
    conversation nothing;
    EXPECT_EQ(chatml().render(nothing).error().code, errc::bad_value);

    conversation call_of_user;
    call_of_user.messages.push_back({role::user, {tool_call_part{"1", "f", "{}"}}});
    EXPECT_THAT(chatml().render(call_of_user).error().what, HasSubstr("messages[0]"));

    conversation result_of_assistant;
    result_of_assistant.messages.push_back({role::assistant, {tool_result_part{"1", "x"}}});
    EXPECT_EQ(chatml().render(result_of_assistant).error().code, errc::bad_value);

    conversation listed_parameters;
    listed_parameters.messages.push_back({role::user, {text_part{"x"}}});
    listed_parameters.tools.push_back({"g", "", "[]"});
    EXPECT_THAT(chatml().render(listed_parameters).error().what, HasSubstr("tool g"));
}

TEST(chat_template, a_day_that_is_none_is_a_bad_value) {
    for (const char* date : {"2026-02-29", "2026-13-01", "2026-00-10", "26 Jul 2024", "2026-3-1",
                             "2026-03-01 ", "-026-03-01", "2026-03-+1"}) {
        render_options options;
        options.date = date;
        for (const char* name : {"llama3", "harmony"}) {
            const auto made = family(name).render(saying("Hi"), options);
            ASSERT_FALSE(made) << name << " " << date;
            EXPECT_EQ(made.error().code, errc::bad_value);
            EXPECT_THAT(made.error().what, HasSubstr(date));
        }
    }
}

TEST(chat_template, without_a_day_the_prompt_is_the_same_every_day) {
    EXPECT_THAT(*family("llama3").render(saying("Hi")), HasSubstr("Today Date: 26 Jul 2024\n"));
    EXPECT_THAT(*family("harmony").render(saying("Hi")), HasSubstr("Current date: 2024-07-26\n"));
}

TEST(chat_template, tools_that_are_no_objects_are_refused_by_name) {
    for (const char* name : {"harmony", "gemma3", "chatml", "llama3"}) {
        conversation listed = saying("a");
        listed.tools.push_back({"g", "", "[]"});
        EXPECT_THAT(family(name).render(listed).error().what, HasSubstr("tool g")) << name;
    }
}

TEST(chat_template, system_texts_at_the_start_are_one_where_the_template_takes_no_more) {
    conversation apart = saying("Hi");
    apart.system = "A";
    apart.messages.insert(apart.messages.begin(), {role::system, {text_part{"B"}}});
    conversation joined = saying("Hi");
    joined.system = "A\n\nB";
    for (const char* name : {"harmony", "gemma3"}) {
        const auto text = family(name).render(apart);
        ASSERT_TRUE(text) << name << ": " << text.error().what;
        EXPECT_EQ(*text, *family(name).render(joined)) << name;
    }
    EXPECT_THAT(*family("chatml").render(apart), HasSubstr("<|im_start|>system\nB<|im_end|>"));
}

TEST(chat_template, harmony_prints_a_preamble_beside_reasoning) {
    const auto text = family("harmony").render(
        after({thinking_part{"hm"}, text_part{"Let me see."}, tool_call_part{"1", "f", "{}"}}));
    EXPECT_THAT(*text, HasSubstr("<|start|>assistant<|channel|>analysis<|message|>hm<|end|>"
                                 "<|start|>assistant<|channel|>commentary<|message|>Let me see."
                                 "<|end|><|start|>assistant to=functions.f<|channel|>commentary "
                                 "json<|message|>{}<|call|>"));
}

TEST(chat_template, harmony_tools_need_no_description) {
    conversation chat = saying("a");
    chat.tools.push_back({"f", "", ""});
    EXPECT_THAT(*family("harmony").render(chat),
                HasSubstr("namespace functions {\n\ntype f = () => any;\n\n}"));
}

TEST(chat_template, kept_thinking_stands_in_earlier_turns) {
    render_options keep;
    keep.keep_thinking = true;
    const conversation chat = after({thinking_part{"hm"}, text_part{"b"}});
    EXPECT_THAT(*family("qwen3").render(chat, keep),
                HasSubstr("<|im_start|>assistant\n<think>\nhm\n</think>\n\nb<|im_end|>\n"));
    EXPECT_THAT(*family("harmony").render(chat, keep),
                HasSubstr("<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>"
                          "final<|message|>b<|end|>"));
    EXPECT_EQ(*family("llama3").render(chat, keep), *family("llama3").render(chat));
}

TEST(chat_template, smollm2_offers_tools_behind_its_default_system_text) {
    conversation chat = saying("a");
    chat.tools.push_back({"f", "", ""});
    EXPECT_THAT(*family("smollm2").render(chat),
                ::testing::StartsWith("<|im_start|>system\nYou are a helpful AI assistant named "
                                      "SmolLM, trained by Hugging Face\n\n# Tools\n\n"));
}

TEST(chat_template, turns_end_with_the_tokens_of_the_family) {
    const std::vector<std::pair<const char*, std::vector<std::string>>> cases{
        {"chatml", {"<|im_end|>"}},
        {"qwen2", {"<|im_end|>", "<|endoftext|>"}},
        {"qwen3", {"<|im_end|>", "<|endoftext|>"}},
        {"smollm2", {"<|im_end|>"}},
        {"llama3", {"<|eot_id|>", "<|eom_id|>", "<|end_of_text|>"}},
        {"llama3.0", {"<|eot_id|>", "<|end_of_text|>"}},
        {"qwen3-thinking", {"<|im_end|>"}},
        {"harmony", {"<|return|>", "<|call|>"}},
        {"gemma3", {"<end_of_turn>", "<eos>"}},
        {"deepseek2", {"<｜end▁of▁sentence｜>"}},
    };
    for (const auto& [name, tokens] : cases) {
        EXPECT_THAT(family(name).stop_tokens(), ::testing::IsSupersetOf(tokens)) << name;
    }
    // This one ends a message and not the turn: the model goes on after its reasoning.
    EXPECT_THAT(family("harmony").stop_tokens(), ::testing::Not(::testing::Contains("<|end|>")));
}

TEST(chat_template, an_unknown_family_is_refused_naming_those_there_are) {
    const auto made = chat_template::make("vicuna");
    EXPECT_EQ(made.error().code, errc::bad_value);
    EXPECT_THAT(made.error().what, HasSubstr("chatml"));
}

TEST(chat_template, an_unknown_template_is_refused_naming_the_families) {
    const struct {
        const char* name;
        const char* config;
    } cases[] = {
        {"llama", R"({"chat_template": "{{ '<|start_header_id|>' }}"})"},
        {"thinking", R"({"chat_template": "<|im_start|><|im_end|>{% if enable_thinking %}"})"},
        {"none", R"({"model_max_length": 5})"},
    };
    for (const auto& c : cases) {
        const auto made = chat_template::load(folder_with(c.name, c.config));
        ASSERT_FALSE(made) << c.name;
        EXPECT_EQ(made.error().code, errc::incompatible) << c.name;
        EXPECT_THAT(made.error().what, HasSubstr("chatml")) << c.name;
        EXPECT_THAT(made.error().what, HasSubstr("tokenizer_config.json")) << c.name;
    }
}

// The sources are our own words for the published templates, which are not ours to copy.
TEST(chat_template, a_family_is_recognised_by_what_its_template_renders) {
    for (const template_family& each : template_families()) {
        const auto source = source_of(each);
        if (!source) continue;
        for (const bool names_tokens : {true, false}) {
            const std::string bos(names_tokens ? each.bos : "");
            const std::string eos(names_tokens ? each.stop_tokens.back() : "");
            const auto made = loaded(*source, bos, eos);
            EXPECT_EQ(made ? made->family() : made.error().what, each.name);
        }
        // Another first token is another template.
        if (each.bos.empty()) continue;
        EXPECT_EQ(loaded(*source, "<s>", "")->family(), "jinja");
    }
    EXPECT_EQ(loaded(chatml_source, "", "")->family(), "chatml");
}

TEST(chat_template, one_that_resembles_a_family_is_rendered_by_itself) {
    const auto changed = [](const std::string& old, const std::string& by) {
        std::string source = chatml_source;
        source.replace(source.find(old), old.size(), by);
        return source;
    };
    const std::string ahab = "<|im_start|>system\\nAnswer as Ahab.<|im_end|>\\n";
    const std::string relatives[]{
        changed("m.content", "m.content | trim"),
        changed("<|im_end|>\\n", "<|im_end|>"),
        changed("m.role", "{'user': 'human', 'assistant': 'gpt', 'system': 'system'}[m.role]"),
        changed("assistant\\n' }}", "assistant\\nAnswer: ' }}"),
        changed("m.role", "('user' if m.role == 'system' else m.role)"),
        "{% if messages[0].role != 'system' %}{{ '" + ahab + "' }}{% endif %}" + chatml_source,
        "{% if tools %}{{ '<|im_start|>system\\nTOOLS ' + tools[0].function.name + "
        "'<|im_end|>\\n' }}{% endif %}" +
            std::string(chatml_source),
        changed("assistant\\n' }}",
                "assistant\\n' }}{% if enable_thinking is defined and not enable_thinking %}"
                "{{ '<think>' }}{% endif %}"),
    };
    for (const std::string& source : relatives) {
        const auto made = loaded(source, "", "");
        ASSERT_TRUE(made) << source;
        EXPECT_EQ(made->family(), "jinja") << source;
    }
    for (const char* name : {"qwen2", "qwen3", "smollm2", "llama3.0", "gemma3", "deepseek2"}) {
        const template_family& each = *find_template_family(name);
        const std::string edited = *source_of(each) + "{{- ' ' if add_generation_prompt }}";
        EXPECT_EQ(loaded(edited, "", "")->family(), "jinja") << name;
    }
}

TEST(chat_template, a_named_family_is_taken_without_reading_anything) {
    const auto made = chat_template::load("/nowhere/at/all", "gemma3");
    ASSERT_TRUE(made) << made.error().what;
    EXPECT_EQ(made->family(), "gemma3");
    EXPECT_EQ(chat_template::load("/nowhere/at/all", "vicuna").error().code, errc::bad_value);
}

TEST(chat_template, a_template_in_its_own_file_goes_first) {
    const std::string source = chatml_source;
    auto made = chat_template::load(
        folder_with("own", {{"tokenizer_config.json", config_with("something else")},
                            {"chat_template.jinja", source}}));
    ASSERT_TRUE(made) << made.error().what;
    EXPECT_EQ(made->family(), "chatml");
    made = chat_template::load(folder_with("own_alone", {{"chat_template.jinja", source}}));
    ASSERT_TRUE(made) << made.error().what;
    made = chat_template::load(
        folder_with("own_wrapped", {{"tokenizer_config.json", config_with("something else")},
                                    {"chat_template.json", config_with(source)}}));
    ASSERT_TRUE(made) << made.error().what;
    made = chat_template::load(folder_with("own_unknown", {{"chat_template.jinja", "x"}}));
    EXPECT_THAT(made.error().what, HasSubstr("chat_template.jinja"));
}

TEST(chat_template, the_type_of_the_model_decides_only_where_it_is_sure) {
    const auto load = [](const char* type, const std::string& config) {
        return chat_template::load(folder_with(
            "typed", {{"config.json", std::string(R"({"model_type": ")") + type + "\"}"},
                      {"tokenizer_config.json", config}}));
    };
    EXPECT_EQ(load("gpt_oss", "{}")->family(), "harmony");
    EXPECT_EQ(load("gemma3_text", "{}")->family(), "gemma3");
    EXPECT_EQ(load("gemma3", config_with("<start_of_turn> in somebody's own words"))->family(),
              "gemma3");
    EXPECT_EQ(load("gemma3", config_with("### Instruction:")).error().code, errc::incompatible);
    EXPECT_EQ(load("gemma3", "{}")->assumed(), "the model has no chat template");
    EXPECT_EQ(load("gpt_oss", config_with("<|channel|> x"))->assumed(), "its own is not known");
    EXPECT_EQ(load("gpt_oss", config_with(chatml_source))->assumed(), "");
    for (const char* type : {"llama", "qwen2", "qwen3", "deepseek_v2", "mistral"}) {
        const auto made = load(type, "{}");
        ASSERT_FALSE(made) << type;
        EXPECT_THAT(made.error().what, HasSubstr(type));
        EXPECT_THAT(made.error().what, HasSubstr("--chat-template"));
    }
}

TEST(chat_template, a_missing_file_is_not_found_and_a_broken_one_is_corrupt) {
    EXPECT_EQ(chat_template::load("/nowhere/at/all").error().code, errc::not_found);
    EXPECT_EQ(chat_template::load(folder_with("broken", "{")).error().code, errc::corrupt);
}

}  // namespace semantic::engine
