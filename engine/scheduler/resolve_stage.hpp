#pragma once
// What the resolve node does: one request after the other gets its form and its prompt. An agent
// has one request under way at a time, and the later ones queue in order of arrival. Owner: the
// scheduler. Thread: the resolve node's.

#include <deque>
#include <functional>
#include <unordered_map>

#include "engine/grammar/forms/answer_grammar.hpp"
#include "engine/prompt/resolve.hpp"
#include "engine/scheduler/form_compiler.hpp"
#include "engine/scheduler/queue/job.hpp"
#include "storage/agents/agent_cache_store.hpp"

namespace semantic::engine {

class resolve_stage {
  public:
    struct services {
        const resolver& prompts;
        storage::agent_cache_store& store;
        answer_grammars& grammars;
        /// Has the request's form made elsewhere; take_form() follows.
        std::function<void(const job_ptr&)> compile;
        std::function<void(const job_ptr&)> pass_on;  // a request that is resolved
        std::function<void(const job_ptr&, generation_event)> end;
        /// The request waits for so many others of its agent.
        std::function<void(const job_ptr&, int before)> tell_wait;
        /// No answer ends for want of blocks from take_hold() until release_hold() or pass_on().
        std::function<void()> take_hold, release_hold;
    };
    explicit resolve_stage(services given) : services_(std::move(given)) {}

    /// Returns: false when the request waits, for another one of its agent or for its form.
    bool arrive(const job_ptr& work);
    /// Behind services::compile.
    void take_form(const job_ptr& work, form_outcome outcome);
    /// The agent's request has ended: the next one begins.
    void release(const storage::agent_id& agent);
    /// Ends requests that wait for another one and are cancelled.
    void drop_cancelled();

  private:
    using job_queue = std::deque<job_ptr>;

    bool begin(const job_ptr& work);
    void resolve(const job_ptr& work, held_form form);
    storage::result<resolved_prompt> resolve_prompt(job& work);
    job_queue take_queue(const storage::agent_id& agent);
    void go_on(const storage::agent_id& agent, job_queue waiting);

    const services services_;
    std::unordered_map<storage::agent_id, job_queue>
        queues_;  // key: an agent with a request under way
};

}  // namespace semantic::engine
