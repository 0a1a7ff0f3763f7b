// SPDX-License-Identifier: Apache-2.0
#pragma once
// Renders only the part of a prompt that comes after an answer, or a message, which an agent's
// memory has already: the end of that turn, the new messages, and the beginning of the next answer.
// So a conversation continues without rendering its history. Pure.

#include <string>
#include <string_view>
#include <vector>

#include "engine/text/template/chat_template.hpp"
#include "engine/types/conversation.hpp"

namespace semantic::engine {

/// Returns: the text after an answer. `said`: the answer's text as it was sampled, without the
/// token that ended it; only the names of its tool calls are used. `more`: the messages that
/// follow; tool results at their beginning belong to the answer's calls, in order; system text and
/// tools are ignored. `changes`: as chat_template::render_marked(). Errors: bad_value, as
/// chat_template::render(); not_found if the template leaves such an answer out.
storage::result<marked_text> render_after_answer(const chat_template& family, std::string_view said,
                                                 const conversation& more,
                                                 const render_options& options,
                                                 std::vector<std::string>* changes = nullptr);

/// As render_after_answer(), after a user's message that has no answer. If the template cannot have
/// two messages of users in a row, the first message of `more` continues that message.
storage::result<marked_text> render_after_message(const chat_template& family,
                                                  const conversation& more,
                                                  const render_options& options,
                                                  std::vector<std::string>* changes = nullptr);

/// Tools as one string, which is kept with an agent's notes.
std::string encode_tools(const std::vector<tool_definition>& tools);
/// The tools of such a string; none if `text` is no such string.
std::vector<tool_definition> decode_tools(std::string_view text);

}  // namespace semantic::engine
