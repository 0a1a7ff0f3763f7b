// SPDX-License-Identifier: Apache-2.0
// ChatML with tools in the Hermes form, as Qwen 2.5 and its kin write them. Templates that know no
// tools (SmolLM2) get them in this form too, since their tokens are the same.

#include "engine/text/template/template_families.hpp"
#include "engine/text/template/template_parts.hpp"

namespace semantic::engine {

using storage::result;

namespace {

/// Appends an assistant's message: its text, then each of its calls on a line of its own.
void append_assistant(marked_text& out, const template_message& from) {
    if (from.calls.empty()) {
        append_chatml_turn(out, "assistant", from.content);
        return;
    }
    out.write("<|im_start|>assistant");
    if (!from.content.empty()) out.write("\n").fill_in(from.content);
    for (const tool_call_part& call : from.calls) {
        out.write("\n");
        append_hermes_call(out, call);
    }
    out.write("<|im_end|>\n");
}

}  // namespace

/// The system text first, with the tools if there are any; then the turns, and the answer's begin.
result<marked_text> render_chatml(const template_input& input) {
    const auto& messages = input.messages;
    marked_text out;
    const bool has_system = messages.front().from == role::system;
    std::string system(has_system ? messages.front().content : input.family.default_system);
    if (!input.tools.empty()) {
        if (has_system || !system.empty()) system += "\n\n";
        if (auto done = append_hermes_tools(out, system, input); !done) return done.error();
    } else if (has_system || !system.empty()) {
        append_chatml_turn(out, "system", system);
    }
    for (std::size_t i = has_system ? 1 : 0; i < messages.size(); ++i) {
        const template_message& from = messages[i];
        switch (from.from) {
            case role::system:
                append_chatml_turn(out, "system", from.content);
                break;
            case role::user:
                append_chatml_turn(out, "user", from.content);
                break;
            case role::assistant:
                if (!append_as_sampled(out, from, "<|im_end|>\n")) append_assistant(out, from);
                break;
            case role::tool:
                append_hermes_result(out, messages, i);
                break;
        }
    }
    out.write("<|im_start|>assistant\n");
    return out;
}

}  // namespace semantic::engine
