// SPDX-License-Identifier: Apache-2.0
#pragma once
// From a request to a prompt: which agent it belongs to, its tokens, and how much of a stored
// memory it continues. Owner: the scheduler. Thread: const methods are safe from any thread; no
// disk, no waiting.

#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>

#include "engine/prompt/message_threads.hpp"
#include "engine/prompt/prompt_tokens.hpp"
#include "engine/prompt/resolved_prompt.hpp"
#include "engine/prompt/source_search.hpp"
#include "engine/prompt/told_day.hpp"
#include "engine/text/template/chat_template.hpp"
#include "engine/text/tokenizer/tokenizer.hpp"
#include "engine/types/generation.hpp"
#include "storage/agents/agent_cache_store.hpp"

namespace semantic::engine {

class resolver {
  public:
    /// `vocabulary`: rows of the model's embedding; a tokenizer may know ids beyond it (of images).
    /// `today`: as yyyy-mm-dd; called from any thread. `context_tokens_max`: see text_bound.
    resolver(const tokenizer& words, const chat_template& chat,
             const storage::agent_cache_store& store, int vocabulary,
             std::function<std::string()> today = local_day,
             int context_tokens_max = std::numeric_limits<int>::max())
        : tokenizer_(words),
          template_(chat),
          vocabulary_(vocabulary),
          memories_(words, store),
          day_(chat, store, memories_, std::move(today)),
          threads_(words, chat, store, vocabulary),
          bound_(words, context_tokens_max),
          store_(store) {}
    resolver(const resolver&) = delete;
    resolver& operator=(const resolver&) = delete;

    /// `busy`: an anonymous request forks from such agents instead of waiting. Errors: bad_value
    /// when the template cannot render the chat or the prompt is empty; not_found when the thread
    /// is lost that it continues.
    storage::result<resolved_prompt> resolve(const generation_request& request,
                                             const busy_agents& busy) const;
    /// Writes the definitions of tools that come late into the conversation (placed_tools.hpp),
    /// where that is more than resolve() should do by itself. Errors: bad_value for a tool whose
    /// parameters are no JSON object, and where it takes more work than a request may. Throws
    /// work_limit_exceeded where the deadline has passed or the budget was cancelled.
    storage::result<void> write_late_tools(conversation& chat, storage::work_budget& budget) const;
    /// Returns: tokens of the rendered prompt when nothing is reused. Of one that cannot fit the
    /// context: how many it has at least, which is more than that.
    storage::result<int> count_tokens(const conversation& chat,
                                      const thinking_params& thinking = {}) const;
    /// Returns: tokens of the prompt with which `request` continues its thread; likewise.
    storage::result<int> count_continued(const generation_request& request) const;
    std::optional<thread_turn> find_thread(const storage::tenant_id& tenant,
                                           const std::string& message_id) const {
        return threads_.find(tenant, message_id);
    }

  private:
    /// A conversation's text, and the memory that it continues furthest.
    struct rendering {
        marked_text text;
        prompt_source source;
        bool is_named = false;      // the request's agent goes on with it
        bool is_next_turn = false;  // of an anonymous conversation, which is the source
        std::vector<std::string> template_fit{};
    };
    storage::result<resolved_prompt> resolve_conversation(const generation_request& request,
                                                          const busy_agents& busy) const;
    storage::result<rendering> render(const generation_request& request,
                                      const render_options& options, const busy_agents& busy) const;
    storage::result<rendering> render_and_search(const generation_request& request,
                                                 const render_options& options,
                                                 const busy_agents& busy,
                                                 std::vector<std::string>& template_fit) const;
    storage::result<void> render_as_sampled(const generation_request& request,
                                            const render_options& options,
                                            const storage::agent_state& state,
                                            rendering& best) const;
    /// Returns: the prompt as the next turn of an anonymous conversation, with its turns as the
    /// model wrote them; nothing where it continues none. `asked`: as the client words it.
    storage::result<std::optional<rendering>> next_anonymous_turn(const generation_request& request,
                                                                  const render_options& options,
                                                                  searched_prompt& asked,
                                                                  const busy_agents& busy) const;
    bool is_next_turn(const prompt_source& found) const;
    /// Whether a session's request is no turn of the conversation that its agent remembers.
    void note_session(const generation_request& request, const storage::agent_state* known,
                      resolved_prompt& prompt) const;
    bool is_branch(const generation_request& request, const marked_text& text) const;
    /// A text that cannot fit by its bytes.
    resolved_prompt refusal(const generation_request& request, std::int64_t excess) const;
    static storage::agent_id agent_of(const generation_request& request, const rendering& found);
    /// `own`: what the request's agent remembers, or null.
    void take_notes(const generation_request& request, const render_options& options,
                    const storage::agent_state* own, const prompt_source& source,
                    resolved_prompt& prompt) const;
    /// `own`: likewise.
    void explain_miss(const generation_request& request, const storage::agent_state* own,
                      const prompt_source& source, resolved_prompt& prompt) const;

    const tokenizer& tokenizer_;
    const chat_template& template_;
    const int vocabulary_;
    const source_search memories_;
    const told_day day_;
    const message_threads threads_;
    const text_bound bound_;
    const storage::agent_cache_store& store_;
};

}  // namespace semantic::engine
