// SPDX-License-Identifier: Apache-2.0
#pragma once
// What requests say about how their prompt is made of the messages: variables for the chat
// template, and where the prompt ends. Pure.

#include "engine/types/conversation.hpp"
#include "engine/types/generation.hpp"
#include "protocol/wire/json.hpp"

namespace semantic::protocol {

/// The meaning of an assistant's message that comes last, where the request does not say it.
enum class last_answer {
    is_history,  // the answer is a new message
    goes_on,     // the answer is what follows its text
};

/// Reads chat_template_kwargs: variables for the chat template. All of them go to `chat`; those
/// about reasoning also to `thinking`. Complains of values that contradict `thinking`, and of
/// variables that the server sets itself.
void parse_template_values(const json_cursor& root, engine::thinking_params& thinking,
                           engine::conversation& chat);

/// Reads continue_final_message and add_generation_prompt, which say whether the answer is a new
/// message or continues the last one. `unless_said`: what holds without them. Complains where the
/// last message cannot be continued: it has calls, or the answer must have a form, which its given
/// beginning may not have. Requires: the messages, and all that shapes the answer, are parsed.
void parse_prompt_end(const json_cursor& root, last_answer unless_said,
                      const engine::output_form& form, engine::conversation& chat);

}  // namespace semantic::protocol
