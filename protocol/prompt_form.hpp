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

/// chat_template_kwargs. What it says of reasoning is in `thinking` then, all of it in `chat`.
/// Complains of what contradicts `thinking` and of variables that are the server's.
void parse_template_values(const json_cursor& root, engine::thinking_params& thinking,
                           engine::conversation& chat);

/// continue_final_message and add_generation_prompt. Complains where an answer cannot go on: it has
/// calls, or the answer has a form, which its beginning may not have.
/// Requires: the messages, and all that shapes the answer, are parsed.
void parse_prompt_end(const json_cursor& root, last_answer unless_said,
                      const engine::output_form& form, engine::conversation& chat);

}  // namespace semantic::protocol
