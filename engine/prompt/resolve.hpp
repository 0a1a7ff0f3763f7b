#pragma once
// From a request to a prompt: which agent it belongs to, its tokens, and how much of a stored
// memory it continues. Owner: the scheduler. Thread: const methods are safe from any thread; no
// disk, no waiting.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/prompt/prefix_match.hpp"
#include "engine/prompt/turn_replay.hpp"
#include "engine/text/template/chat_template.hpp"
#include "engine/text/tokenizer/tokenizer.hpp"
#include "engine/types/generation.hpp"
#include "storage/agents/agent_cache_store.hpp"

namespace semantic::engine {

struct resolved_prompt {
    storage::agent_id agent;  // whose memory the answer extends
    std::string text{};       // rendered, with the generation prompt
    std::vector<token_id>
        tokens{};  // of the whole text: stored ones as they were, then the new ones
    std::vector<std::uint32_t> token_ends{};  // [tokens] byte offset in `text` behind each
    std::shared_ptr<const storage::agent_state>
        source{};          // whose blocks are reused; null when none
    int reuse_tokens = 0;  // tokens taken from `source`, always fewer than tokens.size()
    storage::block_hash private_salt{};  // of `source`: what is computed on top of it has the same
    match_kind match = match_kind::miss;
    miss_reason why = miss_reason::none;  // why no more was reused
    std::string detail{};
    std::map<std::string, std::string> notes{};    // what to remember with the agent
    std::vector<storage::message_end> messages{};  // the agent's, as far as `tokens` has them
    std::size_t turn_begin = 0;         // where in `text` the turn starts that is asked for
    std::vector<sampled_turn> turns{};  // those before it that the model wrote
};

/// The day where the server stands, as yyyy-mm-dd.
std::string local_day();

class resolver {
  public:
    /// `vocabulary`: rows of the model's embedding; a tokenizer may know ids beyond it (of images).
    /// `today`: as yyyy-mm-dd; called from any thread.
    resolver(const tokenizer& words, const chat_template& chat,
             const storage::agent_cache_store& store, int vocabulary,
             std::function<std::string()> today = local_day)
        : tokenizer_(words),
          template_(chat),
          store_(store),
          vocabulary_(vocabulary),
          today_(std::move(today)) {}

    /// `busy`: agents that another request extends right now; an anonymous request forks from them
    /// instead of waiting. Errors: bad_value when the template cannot render the chat or the prompt
    /// is empty; not_found when the thread is lost that it continues.
    storage::result<resolved_prompt> resolve(
        const generation_request& request,
        const std::function<bool(const storage::agent_id&)>& busy) const;
    /// Returns: tokens of the rendered prompt when nothing is reused.
    storage::result<int> count_tokens(const conversation& chat,
                                      const thinking_params& thinking = {}) const;
    /// Returns: tokens of the prompt with which `request` continues its thread.
    storage::result<int> count_continued(const generation_request& request) const;
    std::optional<thread_turn> find_thread(const storage::tenant_id& tenant,
                                           const std::string& message_id) const;

  private:
    /// The answer and the memory that has it; null when it is lost or was not kept as a thread's.
    std::shared_ptr<const storage::agent_state> thread_memory(const storage::tenant_id& tenant,
                                                              const std::string& message_id) const;
    /// The prompt of a request that goes on from an answer: the memory up to there, token by token,
    /// and what the template writes behind it. Nothing is compared. Errors: not_found.
    storage::result<resolved_prompt> continue_thread(const generation_request& request) const;
    void note_thread(const generation_request& request, const render_options& options,
                     resolved_prompt& prompt) const;
    /// Whether a prompt begins with the effort of reasoning.
    bool tells_effort() const;
    storage::result<void> check_tokens(const resolved_prompt& prompt) const;
    struct candidate {
        std::shared_ptr<const storage::agent_state> state;
        prefix_match match;
    };
    class cuts;
    /// A conversation's text, and the memory that it continues furthest.
    struct rendering {
        std::string text;
        candidate source;
    };
    candidate match(std::shared_ptr<const storage::agent_state> state, cuts& of) const;
    /// What the template is told besides the conversation. An agent is told one day for good, or
    /// each midnight would void its memory; so is a conversation that another agent began.
    render_options options_for(const generation_request& request) const;
    bool continues_on(const std::string& day, const generation_request& request,
                      const render_options& options) const;
    /// The whole prompt: what was rendered, or given, behind what the agent remembers if need be.
    storage::result<std::string> prompt_of(const generation_request& request,
                                           const render_options& options) const;
    candidate best_source(const generation_request& request, cuts& of) const;
    storage::result<rendering> render(const generation_request& request,
                                      const render_options& options) const;
    storage::result<void> render_as_sampled(const generation_request& request,
                                            const render_options& options,
                                            const storage::agent_state& state,
                                            rendering& best) const;
    std::shared_ptr<const storage::agent_state> own_memory(const generation_request& request) const;
    /// Whether a session's request is no turn of the conversation that its agent remembers.
    bool is_branch(const generation_request& request, std::string_view text) const;
    void tokenise(resolved_prompt& prompt, const candidate& source) const;
    /// Says where the turn that is asked for begins, and which before it the model wrote.
    void mark_turns(resolved_prompt& prompt, const candidate& source) const;

    const tokenizer& tokenizer_;
    const chat_template& template_;
    const storage::agent_cache_store& store_;
    const int vocabulary_;
    const std::function<std::string()> today_;
};

}  // namespace semantic::engine
