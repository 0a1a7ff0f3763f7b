// SPDX-License-Identifier: Apache-2.0
#pragma once
// The text of a prompt: as the template renders a request, or appended to its agent's memory; and
// which parts of it are content, so that no control token is found there. Pure.

#include <optional>
#include <string>
#include <vector>

#include "engine/text/template/chat_template.hpp"
#include "engine/text/tokenizer/tokenizer.hpp"
#include "engine/types/generation.hpp"
#include "storage/pool/agent_state.hpp"
#include "storage/types/errc.hpp"

namespace semantic::engine {

/// The text of a memory's first `tokens` tokens: all but their control tokens is content, so that
/// it tokenises to the same ones.
marked_text remembered_text(const tokenizer& words, const storage::agent_state& state,
                            std::size_t tokens);

/// A request's `text` has the control tokens that it spells: it is a whole prompt, or a part of
/// one. `own`: what the request's agent remembers, or null. `changes`: as
/// chat_template::render_marked(). Errors: bad_value when the template cannot render the chat.
storage::result<marked_text> prompt_text(const tokenizer& words, const chat_template& chat,
                                         const generation_request& request,
                                         const storage::agent_state* own,
                                         const render_options& options,
                                         std::vector<std::string>* changes = nullptr);

/// The same with the turns that the model wrote in `state` as it wrote them, where the request says
/// the same. Returns: nothing where it has none of them.
storage::result<std::optional<marked_text>> prompt_text_as_sampled(
    const tokenizer& words, const chat_template& chat, const generation_request& request,
    const storage::agent_state& state, const render_options& options);

}  // namespace semantic::engine
