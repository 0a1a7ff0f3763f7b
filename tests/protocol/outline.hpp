// SPDX-License-Identifier: Apache-2.0
#pragma once
// A conversation in a form that a test can compare and a reader can read.

#include <string>
#include <variant>

#include "engine/types/conversation.hpp"

namespace semantic::protocol {

/// One line per message: "role: [kind text] [kind text]".
inline std::string outline(const engine::conversation& chat) {
    std::string lines;
    for (const engine::message& message : chat.messages) {
        switch (message.from) {
            case engine::role::system:
                lines += "system:";
                break;
            case engine::role::user:
                lines += "user:";
                break;
            case engine::role::assistant:
                lines += "assistant:";
                break;
            case engine::role::tool:
                lines += "tool:";
                break;
        }
        for (const engine::content_part& part : message.parts) {
            if (auto* text = std::get_if<engine::text_part>(&part))
                lines += " [" + text->text + "]";
            if (auto* thought = std::get_if<engine::thinking_part>(&part))
                lines += " [thinking " + thought->text + "]";
            if (auto* call = std::get_if<engine::tool_call_part>(&part))
                lines += " [call " + call->id + " " + call->name + " " + call->arguments_json + "]";
            if (auto* result = std::get_if<engine::tool_result_part>(&part))
                lines += std::string(result->is_error ? " [error " : " [result ") +
                         result->tool_call_id + " " + result->text + "]";
        }
        lines += "\n";
    }
    return lines;
}

}  // namespace semantic::protocol
