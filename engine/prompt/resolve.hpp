// SPDX-License-Identifier: Apache-2.0
#pragma once
// Turns a request into a prompt: decides which agent it belongs to, what its tokens are, and how
// much of a stored memory it continues. Owner: the scheduler. Thread: const methods are safe from
// any thread; they read no disk and do not wait.

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

    /// `busy`: says which agents another request extends now; an anonymous request forks from these
    /// instead of waiting. A prompt that cannot fit has resolved_prompt::refused set. Errors:
    /// bad_value if the template cannot render the chat or the prompt is empty; not_found if the
    /// thread that the request continues is lost.
    storage::result<resolved_prompt> resolve(const generation_request& request,
                                             const busy_agents& busy) const;
    /// Writes the definitions of tools that the client adds in the middle of the conversation into
    /// its messages (placed_tools.hpp), and empties `chat.placed_tools`. Called before resolve() if
    /// they are many, because that takes long. Errors: bad_value for a tool whose parameters are no
    /// JSON object, and if the work exceeds the budget. Throws: work_limit_exceeded if the deadline
    /// has passed or the budget was cancelled.
    storage::result<void> write_late_tools(conversation& chat, storage::work_budget& budget) const;
    /// Returns: the number of tokens of the rendered prompt. For a prompt that cannot fit the
    /// context: a lower bound, which exceeds the context.
    storage::result<int> count_tokens(const conversation& chat,
                                      const thinking_params& thinking = {}) const;
    /// Returns: the same for the prompt with which `request` continues its thread.
    storage::result<int> count_continued(const generation_request& request) const;
    /// As message_threads::find().
    std::optional<thread_turn> find_thread(const storage::tenant_id& tenant,
                                           const std::string& message_id) const {
        return threads_.find(tenant, message_id);
    }

  private:
    /// A conversation's text, and the memory that it continues furthest.
    struct rendering {
        marked_text text;
        prompt_source source;
        bool is_named = false;      // it extends the agent that the request names
        bool is_next_turn = false;  // it extends the anonymous agent that is the source
        std::vector<std::string> template_fit{};
    };
    /// Resolves a request that has no late tools and continues no thread.
    storage::result<resolved_prompt> resolve_conversation(const generation_request& request,
                                                          const busy_agents& busy) const;
    storage::result<rendering> render(const generation_request& request,
                                      const render_options& options, const busy_agents& busy) const;
    /// Renders the request, and searches the memory that the text continues furthest.
    /// `template_fit`: gets the shapes that the template lacks.
    storage::result<rendering> render_and_search(const generation_request& request,
                                                 const render_options& options,
                                                 const busy_agents& busy,
                                                 std::vector<std::string>& template_fit) const;
    /// Replaces `best` by the rendering with the model's turns as `state` has them, if that
    /// continues a memory further.
    storage::result<void> render_as_sampled(const generation_request& request,
                                            const render_options& options,
                                            const storage::agent_state& state,
                                            rendering& best) const;
    /// Returns: the prompt as the next turn of an anonymous conversation, with the model's turns as
    /// it wrote them; nothing if the prompt continues none. `asked`: the prompt as the client words
    /// it.
    storage::result<std::optional<rendering>> next_anonymous_turn(const generation_request& request,
                                                                  const render_options& options,
                                                                  searched_prompt& asked,
                                                                  const busy_agents& busy) const;
    /// Whether a prompt that matches an anonymous agent's memory as `found` says is the next turn
    /// of that agent's conversation.
    bool is_next_turn(const prompt_source& found) const;
    /// Notes the session in whose name an agent other than the session's own was asked.
    void note_session(const generation_request& request, const storage::agent_state* known,
                      resolved_prompt& prompt) const;
    /// Whether a session's request (agent_may_branch) is not a turn of the conversation that its
    /// agent remembers.
    bool is_branch(const generation_request& request, const marked_text& text) const;
    /// The prompt of a request whose text cannot fit. `excess`: tokens that it has at least.
    resolved_prompt refusal(const generation_request& request, std::int64_t excess) const;
    /// The agent whose memory the answer extends: the named one, the continued anonymous one, or a
    /// new one.
    static storage::agent_id agent_of(const generation_request& request, const rendering& found);
    /// Fills the prompt's notes, turns and answers. `own`: the memory of the request's agent, or
    /// null.
    void take_notes(const generation_request& request, const render_options& options,
                    const storage::agent_state* own, const prompt_source& source,
                    resolved_prompt& prompt) const;
    /// Fills the prompt's reason why no more of the agent's memory was reused. `own`: as above.
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
