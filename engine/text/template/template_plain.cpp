// SPDX-License-Identifier: Apache-2.0
// Families whose templates know no tools: DeepSeek-V2 and Gemma 3.

#include "engine/text/template/template_families.hpp"
#include "engine/text/template/template_parts.hpp"

namespace semantic::engine {

using storage::errc;
using storage::failure;
using storage::result;

result<marked_text> render_deepseek2(const template_input& input) {
    if (has_tools(input)) return no_tools_in("deepseek2");
    marked_text out("<｜begin▁of▁sentence｜>", false);
    for (const template_message& from : input.messages) {
        if (append_as_sampled(out, from, "<｜end▁of▁sentence｜>")) continue;
        if (from.from == role::user) {
            out.write("User: ").fill_in(from.content).write("\n\n");
        } else if (from.from == role::assistant) {
            out.write("Assistant: ").fill_in(from.content).write("<｜end▁of▁sentence｜>");
        } else {
            // System texts have no mark of their own.
            out.fill_in(from.content).write("\n\n");
        }
    }
    out.write("Assistant:");
    return out;
}

/// Errors: bad_value for tools, and for turns that do not alternate.
result<marked_text> render_gemma3(const template_input& input) {
    if (has_tools(input)) return no_tools_in("gemma3");
    const auto& messages = input.messages;
    const bool has_system = messages.front().from == role::system;
    marked_text out("<bos>", false);
    // There is no system role: its text begins the first turn.
    const std::string prefix = has_system ? messages.front().content + "\n\n" : std::string();
    const std::size_t first = has_system ? 1 : 0;
    for (std::size_t i = first; i < messages.size(); ++i) {
        const template_message& from = messages[i];
        if ((from.from == role::user) != ((i - first) % 2 == 0)) {
            return failure{errc::bad_value,
                           "chat template family gemma3 needs turns that alternate between user "
                           "and assistant, and turn " +
                               std::to_string(i - first) + " is from the " +
                               std::string(name_of(from.from))};
        }
        if (append_as_sampled(out, from, "<end_of_turn>\n")) continue;
        out.write("<start_of_turn>");
        out.write(from.from == role::assistant ? "model" : name_of(from.from)).write("\n");
        if (i == first) out.fill_in(prefix);
        for (const std::string& text : from.texts) out.fill_in(trimmed(text));
        out.write("<end_of_turn>\n");
    }
    out.write("<start_of_turn>model\n");
    return out;
}

}  // namespace semantic::engine
