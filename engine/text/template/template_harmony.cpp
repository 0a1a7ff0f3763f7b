// SPDX-License-Identifier: Apache-2.0
// GPT-OSS's Harmony: every message has a channel, and tools are a TypeScript namespace in the
// developer's message.

#include <algorithm>

#include "engine/text/jinja/values/parse_json.hpp"
#include "engine/text/output/json_text.hpp"
#include "engine/text/template/schema/typescript_type.hpp"
#include "engine/text/template/template_families.hpp"
#include "engine/text/template/template_parts.hpp"

namespace semantic::engine {

using storage::errc;
using storage::failure;
using storage::result;

namespace {

/// The day as yyyy-mm-dd.
std::string iso_day(std::chrono::year_month_day day) {
    // Adding 10000 and dropping the first digit gives four digits.
    std::string text = std::to_string(10000 + static_cast<int>(day.year())).substr(1);
    for (const unsigned part :
         {static_cast<unsigned>(day.month()), static_cast<unsigned>(day.day())}) {
        text += part < 10 ? "-0" : "-";
        text += std::to_string(part);
    }
    return text;
}

/// Appends one message. `header`: who speaks and, after a blank, to whom; without control tokens.
/// Only a leading "assistant" is written as the template's own text; the rest of the header may
/// come from the request (a tool's name) and never becomes control tokens. `channel`: empty for
/// messages without one. `end`: the control token that ends the message.
void append_message(marked_text& out, std::string_view header, std::string_view channel,
                    std::string_view content, std::string_view end = "<|end|>") {
    constexpr std::string_view answers = "assistant";
    const std::size_t speaker = header.starts_with(answers) ? answers.size() : 0;
    out.write("<|start|>").write(header.substr(0, speaker)).fill_in(header.substr(speaker));
    if (!channel.empty()) out.write("<|channel|>").write(channel);
    out.write("<|message|>").fill_in(content).write(end);
}

/// The text of the system message, which the format fixes: the request's system text goes into the
/// developer's message instead. `effort`: low, medium or high.
std::string system_text(std::chrono::year_month_day day, std::string_view effort, bool has_tools) {
    std::string text =
        "You are ChatGPT, a large language model trained by OpenAI.\nKnowledge cutoff: 2024-06\n"
        "Current date: " +
        iso_day(day) + "\n\nReasoning: ";
    text += effort;
    text +=
        "\n\n# Valid channels: analysis, commentary, final. Channel must be included for every "
        "message.";
    if (has_tools) {
        text += "\nCalls to these tools must go to the commentary channel: 'functions'.";
    }
    return text;
}

/// Appends a tool as a TypeScript function type with its description as a comment. Errors:
/// bad_value when its parameters are no JSON object, or too large.
result<void> append_tool(std::string& out, const tool_definition& tool) {
    std::string parameters;
    if (!tool.parameters_json.empty()) {
        const auto schema = jinja::parse_json(tool.parameters_json);
        if (!schema || schema->as_dict() == nullptr)
            return failure{errc::bad_value,
                           "tool " + tool.name + ": parameters is not " +
                               (schema ? "a JSON object" : "JSON, or nested too deeply")};
        try {
            parameters = typescript_parameters(*schema);
        } catch (const jinja::stopped& too_large) {
            return failure{errc::bad_value, "tool " + tool.name + ": " + too_large.message};
        }
    }
    if (!tool.description.empty()) out.append("// ").append(tool.description).append("\n");
    out.append("type ").append(tool.name).append(" = ");
    if (parameters.empty())
        out += "() => any;\n\n";
    else
        out.append("(_: {\n").append(parameters).append("}) => any;\n\n");
    return {};
}

/// Appends the developer's message with the request's system text and tools; nothing when there
/// are neither.
result<void> append_developer(marked_text& out, std::string_view instructions,
                              const std::vector<tool_definition>& tools) {
    if (instructions.empty() && tools.empty()) return {};
    std::string text;
    if (!instructions.empty()) {
        text.append("# Instructions\n\n").append(instructions).append("\n\n");
    }
    if (!tools.empty()) {
        text += "# Tools\n\n## functions\n\nnamespace functions {\n\n";
        for (const tool_definition& tool : tools) {
            if (auto done = append_tool(text, tool); !done) return done.error();
        }
        text += "} // namespace functions";
    }
    append_message(out, "developer", "", text);
    return {};
}

/// Appends an assistant's message with a call. Its reasoning (or, without any, its text) is printed
/// in front of the call in the analysis channel, but no longer once the turn has its answer
/// (`finished`). A message with both reasoning and text, for which the published template raises an
/// error, gets the text in the commentary channel, as the preamble that the format provides for.
/// Errors: bad_value for more than one call.
result<void> append_call(marked_text& out, const template_message& from, bool finished) {
    if (from.calls.size() > 1) {
        return failure{errc::bad_value,
                       "chat template family harmony has one tool call a message, and there are " +
                           std::to_string(from.calls.size())};
    }
    const bool both = !from.content.empty() && !from.thinking.empty();
    const std::string& analysis = from.thinking.empty() ? from.content : from.thinking;
    if (!analysis.empty() && !finished) {
        append_message(out, "assistant", "analysis", analysis);
    }
    if (both) append_message(out, "assistant", "commentary", from.content);
    append_message(out, "assistant to=functions." + from.calls.front().name, "commentary json",
                   arguments_text(from.calls.front()), "<|call|>");
    return {};
}

constexpr std::string_view channel_mark = "<|channel|>";
constexpr std::string_view message_mark = "<|message|>";

/// Whether a client has sent an answer back with its channels' marks in the text. The published
/// template refuses these two channels in a text; without_channels() takes such texts apart.
bool contains_channel(std::string_view text) {
    return text.find("<|channel|>analysis<|message|>") != std::string_view::npos ||
           text.find("<|channel|>final<|message|>") != std::string_view::npos;
}

/// Appends `text`, if it is not empty, on a new line.
void append_line(std::string& to, std::string_view text) {
    if (text.empty()) return;
    if (!to.empty()) to += '\n';
    to += text;
}

/// The number of bytes of `text` before its first control token; all of them when it has none.
std::size_t end_of_message(std::string_view text) {
    std::size_t end = text.size();
    for (const std::string_view mark :
         {channel_mark, std::string_view("<|end|>"), std::string_view("<|start|>"),
          std::string_view("<|return|>"), std::string_view("<|call|>")})
        end = std::min(end, text.find(mark));
    return end;
}

/// A copy of `from` whose text is taken apart into reasoning and answer by the channel marks in it.
/// Clients that do not know the format send an answer back with these marks, for which the
/// published template raises an error.
template_message without_channels(const template_message& from) {
    template_message separated = from;
    separated.content.clear();
    // `outside`: where text goes that is in no channel.
    const auto take = [&](std::string_view text, std::string& outside) {
        while (!text.empty()) {
            const std::size_t channel = text.find(channel_mark);
            append_line(outside, text.substr(0, end_of_message(text)));
            if (channel == std::string_view::npos) return;
            text.remove_prefix(channel + channel_mark.size());
            const bool is_reasoning = text.starts_with("analysis");
            const std::size_t message = text.find(message_mark);
            if (message == std::string_view::npos) return;
            text.remove_prefix(message + message_mark.size());
            const std::size_t end = end_of_message(text);
            append_line(is_reasoning ? separated.thinking : separated.content, text.substr(0, end));
            text.remove_prefix(std::min(text.size(), text.find(channel_mark, end)));
        }
    };
    separated.thinking.clear();
    take(from.thinking, separated.thinking);
    take(from.content, separated.content);
    return separated;
}

/// Whether the assistant's message at `index` is followed by a message of the assistant without
/// calls, which is the answer that its calls led to.
bool is_answered(const std::vector<template_message>& messages, std::size_t index) {
    for (std::size_t i = index + 1; i < messages.size(); ++i) {
        if (messages[i].from == role::assistant && messages[i].calls.empty()) return true;
    }
    return false;
}

/// Appends the assistant's message at `index`. Reasoning of finished turns is printed only with
/// the option keep_thinking, as the published template has it.
result<void> append_assistant(marked_text& out, const template_input& input, std::size_t index) {
    const template_message& said = input.messages[index];
    const bool has_channels = contains_channel(said.content) || contains_channel(said.thinking);
    const template_message from = has_channels ? without_channels(said) : said;
    const bool keep = input.options.keep_thinking;
    if (!from.calls.empty()) {
        return append_call(out, from, !keep && is_answered(input.messages, index));
    }
    if (keep && !from.thinking.empty()) {
        append_message(out, "assistant", "analysis", from.thinking);
    }
    append_message(out, "assistant", "final", from.content);
    return {};
}

}  // namespace

/// Errors: bad_value for a day that is none, a second system text, several calls in a message, a
/// result without a call, and from tools.
result<marked_text> render_harmony(const template_input& input) {
    const auto day = day_of(input.options);
    if (!day) return day.error();
    const auto& messages = input.messages;
    const bool has_system = messages.front().from == role::system;
    marked_text out;
    append_message(out, "system", "",
                   system_text(*day, input.options.reasoning_effort, !input.tools.empty()));
    auto done = append_developer(out, has_system ? messages.front().content : "", input.tools);
    if (!done) return done.error();
    std::string caller;  // the tool of the last call, which the next result belongs to
    for (std::size_t i = has_system ? 1 : 0; i < messages.size(); ++i) {
        const template_message& from = messages[i];
        switch (from.from) {
            case role::system:
                return failure{errc::bad_value,
                               "chat template family harmony has one system text, at the start"};
            case role::user:
                append_message(out, "user", "", from.content);
                break;
            case role::assistant:
                if (!append_as_sampled(out, from, from.calls.empty() ? "<|end|>" : "<|call|>")) {
                    done = append_assistant(out, input, i);
                    if (!done) return done.error();
                }
                caller = from.calls.empty() ? std::string() : from.calls.front().name;
                break;
            case role::tool:
                if (caller.empty()) {
                    return failure{errc::bad_value,
                                   "a tool result follows no tool call of the assistant"};
                }
                append_message(out, "functions." + caller + " to=assistant", "commentary",
                               quoted(from.content));
                break;
        }
    }
    out.write("<|start|>assistant");
    return out;
}

}  // namespace semantic::engine
