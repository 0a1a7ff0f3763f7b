#include "engine/text/template_families.hpp"

#include <array>

#include "engine/text/template_parts.hpp"

namespace semantic::engine {

using storage::errc;
using storage::failure;
using storage::result;

namespace {

void join(std::string& content, const std::string& text) {
    if (!content.empty()) content += '\n';
    content += text;
}

result<void> flatten_one(const message& from, std::size_t index,
                         std::vector<template_message>& out) {
    const auto misplaced = [&](const char* what) {
        return failure{errc::bad_value, "messages[" + std::to_string(index) + "]: a " + what +
                                            " does not belong into a message of role " +
                                            std::string(name_of(from.from))};
    };
    bool open = false;  // the last of `out` takes further text of this message
    const auto current = [&]() -> template_message& {
        if (!open) out.push_back({from.from, {}, {}, {}});
        open = true;
        return out.back();
    };
    for (const content_part& part : from.parts) {
        if (const auto* call = std::get_if<tool_call_part>(&part)) {
            if (from.from != role::assistant) return misplaced("tool call");
            current().calls.push_back(*call);
        } else if (const auto* found = std::get_if<tool_result_part>(&part)) {
            if (from.from != role::user && from.from != role::tool) return misplaced("tool result");
            out.push_back({role::tool, found->text, {}, {}});
            open = false;
        } else if (const auto* thought = std::get_if<thinking_part>(&part)) {
            if (from.from == role::assistant) join(current().thinking, thought->text);
        } else if (const auto* text = std::get_if<text_part>(&part)) {
            join(current().content, text->text);
        }
    }
    return {};
}

// Marks are stretches of a published template's source that the renderer's output depends on;
// foreign ones belong to relatives that would print something else.

template_family llama3_family() {
    return {
        "llama3",
        1,
        {"<|start_header_id|>", "Cutting Knowledge Date: December 2023",
         "Today Date: ", "tools_in_user_message", "<|start_header_id|>ipython<|end_header_id|>"},
        {"<|image|>", "detailed thinking", "<think>"},
        "<|begin_of_text|>",
        "",
        {"<|eot_id|>", "<|eom_id|>", "<|end_of_text|>"},
        render_llama3,
        make_llama3_parser,
    };
}

template_family harmony_family() {
    return {
        "harmony",
        1,
        {"<|channel|>", "# Valid channels: analysis, commentary, final.",
         "Knowledge cutoff: 2024-06", "render_tool_namespace", "<|start|>assistant"},
        {},
        "",
        "",
        {"<|return|>", "<|call|>", "<|endoftext|>"},
        render_harmony,
        make_harmony_parser,
    };
}

template_family gemma3_family() {
    return {
        "gemma3",
        1,
        {"<start_of_turn>", "first_user_prefix", "<start_of_turn>model"},
        {"tools", "function"},
        "<bos>",
        "",
        {"<end_of_turn>", "<eos>"},
        render_gemma3,
        make_plain_parser,
    };
}

template_family deepseek2_family() {
    return {
        "deepseek2",
        1,
        {"'User: ' + message['content']", "'Assistant: ' + message['content'] + eos_token",
         "'Assistant:'"},
        {"System", "SYSTEM"},
        "<｜begin▁of▁sentence｜>",
        "",
        {"<｜end▁of▁sentence｜>"},
        render_deepseek2,
        make_deepseek2_parser,
    };
}

template_family qwen3_family() {
    return {
        "qwen3",
        1,
        {"<|im_start|>", "enable_thinking", "last_query_index", "<tools></tools>",
         "<think>\\n\\n</think>"},
        {"<function=", "<|vision_start|>", "assistant\\n<think>"},
        "",
        "",
        {"<|im_end|>", "<|endoftext|>"},
        render_qwen3,
        make_qwen3_parser,
    };
}

template_family qwen2_family() {
    return {
        "qwen2",
        1,
        {"<|im_start|>", "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.",
         "<tools></tools>"},
        {"<think>", "enable_thinking", "<|vision_start|>", "{{\\\"name"},
        "",
        "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.",
        {"<|im_end|>", "<|endoftext|>"},
        render_chatml,
        make_hermes_parser,
    };
}

template_family smollm2_family() {
    return {
        "smollm2",
        1,
        {"<|im_start|>",
         "You are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>"},
        {"<think>", "enable_thinking"},
        "",
        "You are a helpful AI assistant named SmolLM, trained by Hugging Face",
        {"<|im_end|>", "<|endoftext|>"},
        render_chatml,
        make_hermes_parser,
    };
}

template_family chatml_family() {
    return {
        "chatml",
        1,
        {"<|im_start|>", "<|im_end|>"},
        // Relatives that print more than the conversation: a first token, a default system
        // text, the date, thinking, tools in a form of their own. Taking them for plain ChatML
        // would print something else without a word.
        {"bos_token", "messages[0]['role'] != 'system'", "system_message", "You are Qwen",
         "You are a helpful", "system\\nYou are", "<think>", "enable_thinking", "reasoning_content",
         "strftime_now", "<|im_sep|>", "macro"},
        "",
        "",
        {"<|im_end|>", "<|endoftext|>"},
        render_chatml,
        make_hermes_parser,
    };
}

}  // namespace

result<std::vector<template_message>> flatten(const conversation& chat) {
    std::vector<template_message> out;
    if (!chat.system.empty()) out.push_back({role::system, chat.system, {}, {}});
    for (std::size_t i = 0; i < chat.messages.size(); ++i) {
        const std::size_t before = out.size();
        if (auto added = flatten_one(chat.messages[i], i, out); !added) return added.error();
        // An empty message is still a turn.
        if (out.size() == before) out.push_back({chat.messages[i].from, {}, {}, {}});
    }
    if (out.empty()) return failure{errc::bad_value, "the conversation has no message"};
    return out;
}

std::span<const template_family> template_families() {
    // The first match counts, so plain ChatML, which has the fewest marks, stands last.
    static const std::array families{llama3_family(),    harmony_family(), gemma3_family(),
                                     deepseek2_family(), qwen3_family(),   qwen2_family(),
                                     smollm2_family(),   chatml_family()};
    return families;
}

const template_family* find_template_family(std::string_view name) {
    for (const template_family& family : template_families()) {
        if (family.name == name) return &family;
    }
    return nullptr;
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
