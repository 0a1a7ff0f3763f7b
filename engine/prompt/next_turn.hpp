// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a template writes after an answer, or a message, that is in an agent's memory already: the
// end of that turn, the messages that follow, the beginning of the next answer. So a conversation
// continues without rendering its history, or comparing it with anything. Pure.

#include <string>
#include <string_view>
#include <vector>

#include "engine/text/template/chat_template.hpp"
#include "engine/types/conversation.hpp"

namespace semantic::engine {

/// `said`: the answer's text as it was sampled, without the token that ended it; of it only the
/// names of its calls matter. `more`: the messages that follow; when they begin with tool results,
/// these are of the calls in their order. Its system text and tools do not count. `changes`: as
/// chat_template::render_marked(). Errors: bad_value, as chat_template::render(); not_found, when
/// the template leaves such an answer out.
storage::result<marked_text> render_after_answer(const chat_template& family, std::string_view said,
                                                 const conversation& more,
                                                 const render_options& options,
                                                 std::vector<std::string>* changes = nullptr);

/// The same after a user's message that has no answer. Where the template has no two messages of
/// users in a row, the first of `more` continues it.
storage::result<marked_text> render_after_message(const chat_template& family,
                                                  const conversation& more,
                                                  const render_options& options,
                                                  std::vector<std::string>* changes = nullptr);

/// Tools as one string, to be kept with an agent, and back. What is no such string has no tools.
std::string encode_tools(const std::vector<tool_definition>& tools);
std::vector<tool_definition> decode_tools(std::string_view text);

}  // namespace semantic::engine
