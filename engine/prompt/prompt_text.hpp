#pragma once
// The text of a prompt: as the template renders a request, or behind what its agent remembers.
// Pure.

#include <optional>
#include <string>

#include "engine/text/template/chat_template.hpp"
#include "engine/types/generation.hpp"
#include "storage/pool/agent_state.hpp"
#include "storage/types/errc.hpp"

namespace semantic::engine {

/// `own`: what the request's agent remembers, or null. Errors: bad_value when the template cannot
/// render the chat.
storage::result<std::string> prompt_text(const chat_template& chat,
                                         const generation_request& request,
                                         const storage::agent_state* own,
                                         const render_options& options);

/// The same with the turns that the model wrote in `state` as it wrote them, where the request says
/// the same. Returns: nothing where it has none of them.
storage::result<std::optional<std::string>> prompt_text_as_sampled(
    const chat_template& chat, const generation_request& request, const storage::agent_state& state,
    const render_options& options);

}  // namespace semantic::engine
