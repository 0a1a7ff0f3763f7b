// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler/resolve_stage.hpp"

#include <utility>

#include "engine/text/placed_tools.hpp"

namespace semantic::engine {

namespace {

// How often a prompt is resolved again because the memory that it continues has left the disk.
constexpr int resolves_max = 3;

}  // namespace

bool resolve_stage::arrive(const job_ptr& work) {
    const auto& agent = work->request.agent;
    const auto busy = agent ? queues_.find(*agent) : queues_.end();
    if (busy == queues_.end()) return begin(work);
    outputs_.announce_earlier(work, static_cast<int>(busy->second.size()));
    busy->second.push_back(work);
    return false;
}

/// Resolves the request if its form is compiled already and it has few late tools. Otherwise has
/// them made on other threads, marks the agent busy, and returns false.
bool resolve_stage::begin(const job_ptr& work) {
    const bool has_few_tools = has_few_placed_tools(work->request.chat);
    if (auto form = has_few_tools ? grammars_.find(work->request) : std::nullopt) {
        resolve(work, std::move(*form));
        return true;
    }
    if (work->request.agent) queues_.try_emplace(*work->request.agent);
    outputs_.compile_form(work);
    return false;
}

// The agent's queue is taken out while the prompt is resolved, so that the agent counts as free
// there, as it does for a request that did not have to wait for a form.
void resolve_stage::take_form(const job_ptr& work, form_outcome outcome) {
    const auto& agent = work->request.agent;
    job_queue waiting = agent ? take_queue(*agent) : job_queue();
    if (auto* form = std::get_if<held_form>(&outcome))
        resolve(work, std::move(*form));
    else if (auto* why = std::get_if<failed>(&outcome))
        outputs_.end_request(work, std::move(*why));
    else
        outputs_.end_request(work, std::get<finished>(std::move(outcome)));
    if (agent) begin_waiting(*agent, std::move(waiting));
}

void resolve_stage::release(const storage::agent_id& agent) {
    begin_waiting(agent, take_queue(agent));
}

// Makes the agent free. Returns: its requests that wait. Requires: the agent is busy.
resolve_stage::job_queue resolve_stage::take_queue(const storage::agent_id& agent) {
    const auto busy = queues_.find(agent);
    job_queue waiting = std::move(busy->second);
    queues_.erase(busy);
    return waiting;
}

// Begins requests of `waiting` until one of them makes the agent busy; a request that fails, or
// branches off to another agent, does not. Those that are left become the agent's queue.
void resolve_stage::begin_waiting(const storage::agent_id& agent, job_queue waiting) {
    while (!waiting.empty() && !queues_.contains(agent)) {
        const job_ptr work = waiting.front();
        waiting.pop_front();
        begin(work);
    }
    if (!waiting.empty()) queues_[agent] = std::move(waiting);
}

// Resolves the prompt, and pins the files of the memory that it continues until they are read. The
// pin fails if the agent was saved again meanwhile, with other files: then the prompt is resolved
// again, against the newer memory.
storage::result<resolved_prompt> resolve_stage::resolve_prompt(job& work) {
    auto busy = [this](const storage::agent_id& id) { return queues_.contains(id); };
    for (int i = 1;; ++i) {
        auto prompt = prompts_.resolve(work.request, busy);
        if (!prompt || !prompt->source) return prompt;
        auto files = store_.keep_files(*prompt->source, prompt->reuse_tokens);
        using kept_files = storage::agent_cache_store::kept_files;
        if (files) work.files = std::make_shared<kept_files>(std::move(*files));
        // After the last try the request continues unpinned: it computes the tokens whose files go.
        if (files || i == resolves_max) return prompt;
    }
}

// Renders, matches and tokenises. From try_emplace() on the agent is busy, until release(), to
// which end_request() leads when the request is refused.
void resolve_stage::resolve(const job_ptr& work, held_form form) {
    outputs_.hold_blocks();
    auto refuse = [&](failed why) {
        outputs_.release_blocks();
        outputs_.end_request(work, std::move(why));
    };
    try {
        auto prompt = resolve_prompt(*work);
        if (!prompt) {
            const bool is_lost = prompt.error().code == storage::errc::not_found;
            return refuse({is_lost ? failure_kind::thread_lost : failure_kind::bad_request,
                           prompt.error().what});
        }
        if (prompt->refused) return refuse(std::move(*prompt->refused));
        work->prompt = std::move(*prompt);
        work->form = std::move(form);
        queues_.try_emplace(work->prompt->agent);
        work->pins.push_back(store_.hold(work->prompt->agent));
        if (work->prompt->source) work->pins.push_back(store_.hold(work->prompt->source->id));
        outputs_.pass_on(work);
    } catch (const std::exception& error) {
        refuse({failure_kind::internal, error.what()});
    }
}

// Ends the cancelled ones among requests that wait for an earlier one of their agent.
void resolve_stage::drop_cancelled() {
    for (auto& [agent, queue] : queues_)
        std::erase_if(queue, [&](const job_ptr& work) {
            if (!work->cancelled.load(std::memory_order_relaxed)) return false;
            outputs_.end_request(work, finished{stop_reason::cancelled, {}, 0, false});
            return true;
        });
}

}  // namespace semantic::engine
