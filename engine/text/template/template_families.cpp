// SPDX-License-Identifier: Apache-2.0
#include "engine/text/template/template_families.hpp"

#include <algorithm>
#include <array>

#include "engine/text/template/template_parts.hpp"

namespace semantic::engine {

using storage::errc;
using storage::failure;
using storage::result;

namespace {

/// Appends `text` to `content`, on a new line unless it is the first.
void join(std::string& content, const std::string& text) {
    if (!content.empty()) content += '\n';
    content += text;
}

/// Appends the template's messages for one message of the conversation: its text, reasoning and
/// calls become one message, each tool result becomes a message of its own. `index`: the message's
/// position, for errors. Errors: bad_value for a call or a result in a message of another role.
result<void> flatten_one(const message& from, std::size_t index,
                         std::vector<template_message>& out) {
    const auto misplaced = [&](const char* part) {
        return failure{errc::bad_value, "messages[" + std::to_string(index) + "]: a " + part +
                                            " does not belong into a message of role " +
                                            std::string(name_of(from.from))};
    };
    bool open = false;  // further parts of this message join the last message of `out`
    const auto current = [&]() -> template_message& {
        if (!open)
            out.push_back({.from = from.from,
                           .as_sampled = from.as_sampled,
                           .as_sampled_content = from.as_sampled_content});
        open = true;
        return out.back();
    };
    for (const content_part& part : from.parts) {
        if (const auto* call = std::get_if<tool_call_part>(&part)) {
            if (from.from != role::assistant) return misplaced("tool call");
            current().calls.push_back(*call);
        } else if (const auto* found = std::get_if<tool_result_part>(&part)) {
            if (from.from != role::user && from.from != role::tool) return misplaced("tool result");
            out.push_back({.from = role::tool,
                           .content = found->text,
                           .texts = {found->text},
                           .call_id = found->tool_call_id});
            open = false;
        } else if (const auto* thought = std::get_if<thinking_part>(&part)) {
            // Reasoning in messages of other roles is left out.
            if (from.from == role::assistant) join(current().thinking, thought->text);
        } else if (const auto* text = std::get_if<text_part>(&part)) {
            join(current().content, text->text);
            current().texts.push_back(text->text);
        }
    }
    return {};
}

constexpr std::string_view think_end = "\n</think>\n\n";

template_family llama3_family() {
    return {
        .name = "llama3",
        .version = 1,
        .bos = "<|begin_of_text|>",
        .turn_begin = "<|start_header_id|>assistant<|end_header_id|>\n\n",
        .stop_tokens = {"<|eot_id|>", "<|eom_id|>", "<|end_of_text|>"},
        .prints_day = true,
        .render = render_llama3,
        .answers = {.calls = call_format::llama3},
    };
}

template_family llama30_family() {
    return {
        .name = "llama3.0",
        .version = 1,
        .bos = "<|begin_of_text|>",
        .turn_begin = "<|start_header_id|>assistant<|end_header_id|>\n\n",
        .stop_tokens = {"<|eot_id|>", "<|end_of_text|>"},
        .render = render_llama30,
        .answers = {},
    };
}

template_family harmony_family() {
    return {
        .name = "harmony",
        .version = 1,
        .turn_begin = "<|start|>assistant",
        .stop_tokens = {"<|return|>", "<|call|>", "<|endoftext|>"},
        .prints_day = true,
        .has_effort = true,
        .thinking_end = "<|end|><|start|>assistant<|channel|>final<|message|>",
        .render = render_harmony,
        .answers = {.calls = call_format::harmony, .thinking = thinking_format::harmony},
    };
}

template_family gemma3_family() {
    return {
        .name = "gemma3",
        .version = 1,
        .bos = "<bos>",
        .turn_begin = "<start_of_turn>model\n",
        .stop_tokens = {"<end_of_turn>", "<eos>"},
        .render = render_gemma3,
        .answers = {},
    };
}

template_family deepseek2_family() {
    return {
        .name = "deepseek2",
        .version = 1,
        .bos = "<｜begin▁of▁sentence｜>",
        .turn_begin = "Assistant:",
        .stop_tokens = {"<｜end▁of▁sentence｜>"},
        .render = render_deepseek2,
        .answers = {.drops_blank = true},
    };
}

template_family qwen3_family() {
    return {
        .name = "qwen3",
        .version = 1,
        .stop_tokens = {"<|im_end|>", "<|endoftext|>"},
        .thinking_end = think_end,
        .render = render_qwen3,
        .answers = {.calls = call_format::hermes, .thinking = thinking_format::think},
    };
}

/// Always thinks: the generation prompt opens the reasoning.
template_family qwen3_thinking_family() {
    return {
        .name = "qwen3-thinking",
        .version = 1,
        .stop_tokens = {"<|im_end|>", "<|endoftext|>"},
        .opened_thinking = "<think>\n",
        .thinking_end = think_end,
        .render = render_qwen3,
        .answers = {.calls = call_format::hermes,
                    .thinking = thinking_format::think,
                    .opened = {.when_on = true, .when_off = true}},
    };
}

/// Qwen 2.5 and models with its format. `default_system`: the system text where a conversation has
/// none. `doubled_braces`: the template's example of a call has two braces instead of one.
template_family qwen2_family(std::string_view name, std::string_view default_system,
                             bool doubled_braces) {
    return {
        .name = name,
        .version = 1,
        .default_system = default_system,
        .stop_tokens = {"<|im_end|>", "<|endoftext|>"},
        .doubled_braces = doubled_braces,
        .render = render_chatml,
        .answers = {.calls = call_format::hermes},
    };
}

constexpr std::string_view qwen_system =
    "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.";
/// The default system text of checkpoints that were not trained for conversations.
constexpr std::string_view qwen_base_system = "You are a helpful assistant.";
constexpr std::string_view qwen_math_system =
    "Please reason step by step, and put your final answer within \\boxed{}.";

template_family smollm2_family() {
    return {
        .name = "smollm2",
        .version = 1,
        .default_system = "You are a helpful AI assistant named SmolLM, trained by Hugging Face",
        .stop_tokens = {"<|im_end|>", "<|endoftext|>"},
        .render = render_chatml,
        .answers = {.calls = call_format::hermes},
    };
}

template_family chatml_family() {
    return {
        .name = "chatml",
        .version = 1,
        .stop_tokens = {"<|im_end|>", "<|endoftext|>"},
        .render = render_chatml,
        .answers = {.calls = call_format::hermes},
    };
}

}  // namespace

result<std::vector<template_message>> flatten(const conversation& chat) {
    std::vector<template_message> out;
    if (!chat.system.empty()) {
        out.push_back({.from = role::system, .content = chat.system, .texts = {chat.system}});
    }
    for (std::size_t i = 0; i < chat.messages.size(); ++i) {
        const std::size_t before = out.size();
        if (auto added = flatten_one(chat.messages[i], i, out); !added) return added.error();
        // An empty message is still a turn.
        if (out.size() == before)
            out.push_back({.from = chat.messages[i].from,
                           .as_sampled = chat.messages[i].as_sampled,
                           .as_sampled_content = chat.messages[i].as_sampled_content});
    }
    if (out.empty()) return failure{errc::bad_value, "the conversation has no message"};
    return out;
}

std::optional<std::size_t> find_turn(std::string_view text, std::span<const text_range> content,
                                     std::string_view turn_begin) {
    if (turn_begin.empty()) return std::nullopt;
    std::size_t at = text.rfind(turn_begin);
    while (at != std::string_view::npos) {
        if (ranges_within(content, at, at + turn_begin.size()).empty()) return at;
        at = at == 0 ? std::string_view::npos : text.rfind(turn_begin, at - 1);
    }
    return std::nullopt;
}

std::span<const template_family> template_families() {
    // The order matters: of families that render alike the first is chosen.
    static const std::array families{llama3_family(),
                                     llama30_family(),
                                     harmony_family(),
                                     gemma3_family(),
                                     deepseek2_family(),
                                     qwen3_family(),
                                     qwen3_thinking_family(),
                                     qwen2_family("qwen2", qwen_system, false),
                                     qwen2_family("qwen2-coder", qwen_system, true),
                                     qwen2_family("qwen2-base", qwen_base_system, false),
                                     qwen2_family("qwen2-coder-base", qwen_base_system, true),
                                     qwen2_family("qwen2-math", qwen_math_system, false),
                                     smollm2_family(),
                                     chatml_family()};
    return families;
}

const template_family* find_template_family(std::string_view name) {
    if (name == own_template_family) {
        // This entry means the template that the model comes with. Its answers are taken as plain
        // text, since without the template it is not known in which form the model writes calls.
        static const template_family own{
            .name = own_template_family,
            .version = 1,
            .turn_begin = {},
            .stop_tokens = {},
            .render = nullptr,
            .answers = {},
        };
        return &own;
    }
    for (const template_family& family : template_families()) {
        if (family.name == name) return &family;
    }
    return nullptr;
}

std::unique_ptr<output_parser> make_output_parser(std::string_view family, bool has_tools) {
    const template_family* found = find_template_family(family);
    if (found == nullptr) return nullptr;
    return make_output_parser(found->answers, has_tools ? offered_tools::any() : offered_tools());
}

std::string template_family_names() {
    std::string names;
    for (const template_family& family : template_families()) {
        if (!names.empty()) names += ", ";
        names += family.name;
    }
    return names;
}

}  // namespace semantic::engine
