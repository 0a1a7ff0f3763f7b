// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the resolve node does: one request after the other gets its form and its prompt. An agent
// has one request under way at a time, and the later ones queue in order of arrival. Owner: the
// scheduler. Thread: the resolve node's.

#include <deque>
#include <unordered_map>

#include "engine/grammar/forms/answer_grammar.hpp"
#include "engine/prompt/resolve.hpp"
#include "engine/scheduler/form_compiler.hpp"
#include "engine/scheduler/queue/job.hpp"
#include "storage/agents/agent_cache_store.hpp"

namespace semantic::engine {

/// What the resolve stage asks of the scheduler, and where its requests go.
class resolve_outputs {
  public:
    /// Has the request's form, and the texts of its late tools, made elsewhere;
    /// resolve_stage::take_form() follows.
    virtual void compile_form(const job_ptr& work) = 0;
    /// The request is resolved.
    virtual void pass_on(const job_ptr& work) = 0;
    virtual void end_request(const job_ptr& work, generation_event last) = 0;
    /// The request waits for so many others of its agent.
    virtual void announce_earlier(const job_ptr& work, int count) = 0;
    /// No answer ends for want of blocks from hold_blocks() until release_blocks() or pass_on().
    virtual void hold_blocks() = 0;
    virtual void release_blocks() = 0;

  protected:
    ~resolve_outputs() = default;
};

class resolve_stage {
  public:
    resolve_stage(const resolver& prompts, storage::agent_cache_store& store,
                  answer_grammars& grammars, resolve_outputs& outputs)
        : prompts_(prompts), store_(store), grammars_(grammars), outputs_(outputs) {}

    /// Returns: false when the request waits, for another one of its agent or for its form.
    bool arrive(const job_ptr& work);
    /// The form that resolve_outputs::compile_form() was to make.
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

    const resolver& prompts_;
    storage::agent_cache_store& store_;
    answer_grammars& grammars_;
    resolve_outputs& outputs_;
    std::unordered_map<storage::agent_id, job_queue>
        queues_;  // key: an agent with a request under way
};

}  // namespace semantic::engine
