// SPDX-License-Identifier: Apache-2.0
#pragma once
// The work of the resolve node: each request gets its compiled form and its resolved prompt. An
// agent is busy from the start of a request until that has ended, and its later requests queue in
// order of arrival. Owner: the scheduler. Thread: the resolve node's.

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
    /// Starts compiling the request's form, and the texts of its late tools, on other threads;
    /// resolve_stage::take_form() is called with the outcome.
    virtual void compile_form(const job_ptr& work) = 0;
    /// Sends the resolved request to the step node.
    virtual void pass_on(const job_ptr& work) = 0;
    virtual void end_request(const job_ptr& work, generation_event last) = 0;
    /// Notifies the client that `count` other requests of its agent come first.
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

    /// Resolves a new request. Returns: false if the request has to wait first, for an earlier one
    /// of its agent or for its form.
    bool arrive(const job_ptr& work);
    /// Goes on with a request whose form resolve_outputs::compile_form() was asked to compile.
    void take_form(const job_ptr& work, form_outcome outcome);
    /// Begins the agent's next waiting request, because its current one has ended.
    void release(const storage::agent_id& agent);
    /// Ends requests that wait for another one and are cancelled.
    void drop_cancelled();

  private:
    using job_queue = std::deque<job_ptr>;

    bool begin(const job_ptr& work);
    void resolve(const job_ptr& work, held_form form);
    storage::result<resolved_prompt> resolve_prompt(job& work);
    job_queue take_queue(const storage::agent_id& agent);
    void begin_waiting(const storage::agent_id& agent, job_queue waiting);

    const resolver& prompts_;
    storage::agent_cache_store& store_;
    answer_grammars& grammars_;
    resolve_outputs& outputs_;
    std::unordered_map<storage::agent_id, job_queue>
        queues_;  // key: a busy agent; value: its requests that wait
};

}  // namespace semantic::engine
