// SPDX-License-Identifier: Apache-2.0
#pragma once
// Conversations that continue from the name of an answer: the memory up to there, token by token,
// and what the template writes after it. Owner: resolver. Thread: const methods are safe from any
// thread.

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

    std::optional<thread_turn> find(const storage::tenant_id& tenant,
                                    const std::string& message_id) const;
    /// The prompt of a request that goes on from an answer. Nothing is compared. `bound`: for text
    /// that is refused before it is tokenised; null where it is only counted. Errors: not_found;
    /// bad_value, as the template's and check_tokens()'.
    storage::result<resolved_prompt> resume(const generation_request& request,
                                            const text_bound* bound) const;
    /// Notes with a prompt what resume() will need.
    void note(const generation_request& request, const render_options& options,
              resolved_prompt& prompt) const;

  private:
    /// The memory that has the answer; null when it is lost or was not kept as a thread's.
    std::shared_ptr<const storage::agent_state> memory_of(const storage::tenant_id& tenant,
                                                          const std::string& message_id) const;
    /// Whether a prompt begins with the effort of reasoning.
    bool tells_effort() const;

    const tokenizer& tokenizer_;
    const chat_template& template_;
    const storage::agent_cache_store& store_;
    const int vocabulary_;
};

}  // namespace semantic::engine
