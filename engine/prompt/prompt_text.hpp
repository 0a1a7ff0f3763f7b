// SPDX-License-Identifier: Apache-2.0
#pragma once
// Makes the text of a prompt: rendered by the template from the whole conversation, or the agent's
// memory with the new messages appended. The text is marked: it says which parts are content, where
// no control token is recognised. Pure.

#include <optional>
#include <string>
#include <vector>

#include "engine/text/template/chat_template.hpp"
#include "engine/text/tokenizer/tokenizer.hpp"
#include "engine/types/generation.hpp"
#include "storage/pool/agent_state.hpp"
#include "storage/types/errc.hpp"

namespace semantic::engine {

/// The text of a memory's first `tokens` tokens. Everything but their control tokens is marked as
/// content, so that no other control token is recognised in it.
marked_text remembered_text(const tokenizer& words, const storage::agent_state& state,
                            std::size_t tokens);

/// The text of a request's prompt. `own`: the memory of the request's agent, or null. A raw prompt
/// (`request.text`) is taken as it is, control tokens included. `changes`: as
/// chat_template::render_marked(). Errors: bad_value if the template cannot render the chat.
storage::result<marked_text> prompt_text(const tokenizer& words, const chat_template& chat,
                                         const generation_request& request,
                                         const storage::agent_state* own,
                                         const render_options& options,
                                         std::vector<std::string>* changes = nullptr);

/// The text of a request's prompt, with the model's turns as the memory `state` has them, for those
/// turns of the request that say the same in other words. Returns: nothing if there is no such
/// turn.
storage::result<std::optional<marked_text>> prompt_text_as_sampled(
    const tokenizer& words, const chat_template& chat, const generation_request& request,
    const storage::agent_state& state, const render_options& options);

}  // namespace semantic::engine
