// SPDX-License-Identifier: Apache-2.0
#pragma once
// Conversations ("threads") that a client continues by the name of an earlier answer, sending only
// the messages after it. The prompt is then the memory up to that answer, token by token, and what
// the template writes after it. Owner: resolver. Thread: const methods are safe from any thread.

#include <memory>
#include <optional>
#include <string>

#include "engine/prompt/prompt_tokens.hpp"
#include "engine/prompt/resolved_prompt.hpp"
#include "engine/text/template/chat_template.hpp"
#include "storage/agents/agent_cache_store.hpp"

namespace semantic::engine {

class message_threads {
  public:
    /// `vocabulary`: see check_tokens().
    message_threads(const tokenizer& words, const chat_template& chat,
                    const storage::agent_cache_store& store, int vocabulary)
        : tokenizer_(words), template_(chat), store_(store), vocabulary_(vocabulary) {}

    /// Returns: what must be known to continue the answer with this name; nothing if the tenant has
    /// no such answer, or it was not kept for threads.
    std::optional<thread_turn> find(const storage::tenant_id& tenant,
                                    const std::string& message_id) const;
    /// The prompt of a request that continues the answer request.continues. No text is compared
    /// with the memory. `bound`: refuses a text that cannot fit before it is tokenised; may be
    /// null. Errors: not_found if the thread is lost; bad_value if the template cannot render the
    /// messages, or for the reasons of check_tokens().
    storage::result<resolved_prompt> resume(const generation_request& request,
                                            const text_bound* bound) const;
    /// Adds to the prompt's notes what resume() needs to continue the answer to it.
    void note(const generation_request& request, const render_options& options,
              resolved_prompt& prompt) const;

  private:
    /// The memory that has the answer; null if it is lost or was not kept for threads.
    std::shared_ptr<const storage::agent_state> memory_of(const storage::tenant_id& tenant,
                                                          const std::string& message_id) const;
    /// Whether the template writes the effort of reasoning into the prompt, where a later turn
    /// cannot change it.
    bool prints_effort() const;

    const tokenizer& tokenizer_;
    const chat_template& template_;
    const storage::agent_cache_store& store_;
    const int vocabulary_;
};

}  // namespace semantic::engine
