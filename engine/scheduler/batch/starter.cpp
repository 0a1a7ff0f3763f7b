// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler/batch/starter.hpp"

#include <algorithm>
#include <chrono>
#include <random>
#include <utility>

#include "engine/prompt/miss_reason.hpp"
#include "engine/scheduler/policy/form_share.hpp"

namespace semantic::engine {

namespace {

// The numbers that clients get of a prompt: how many of its tokens were reused, and why not more.
prompt_usage usage_of(const job& work, bool has_states) {
    const resolved_prompt& prompt = *work.prompt;
    const storage::restored_prefix& restored = *work.restored;
    prompt_usage usage;
    usage.prompt_tokens = static_cast<int>(prompt.tokens.size());
    usage.reused_tokens = restored.tokens;
    // Known tokens that are computed again: those whose KV was lost, and the last token, which
    // always runs because its logits give the answer's first token.
    usage.recomputed_tokens = prompt.reuse_tokens - restored.tokens + 1;
    usage.created_tokens = usage.prompt_tokens - usage.reused_tokens - usage.recomputed_tokens;
    usage.restored_tokens = restored.tokens_read;
    // Without any restored token it is a miss, whatever was matched: the memory was lost meanwhile.
    usage.match = restored.tokens == 0 ? match_kind::miss : prompt.match;
    usage.why = prompt.why;
    usage.detail = prompt.detail;
    usage.difference = prompt.difference;
    if (restored.why != storage::shortfall::none) {
        usage.detail = restored.detail;
        usage.why = reason_of(restored.why);
    }
    if (has_states && restored.tokens < prompt.reuse_tokens) {
        if (usage.why == miss_reason::none) usage.why = miss_reason::too_short;
        usage.detail += (usage.detail.empty() ? "state at " : "; state at ") +
                        std::to_string(restored.tokens) + " of " +
                        std::to_string(prompt.reuse_tokens) + " tokens";
    }
    return usage;
}

std::chrono::microseconds microseconds_between(std::chrono::steady_clock::time_point from,
                                               std::chrono::steady_clock::time_point to) {
    return std::chrono::duration_cast<std::chrono::microseconds>(to - from);
}

void count_usage(const prompt_usage& usage, engine_probe& probe) {
    auto add = [](std::atomic<std::uint64_t>& counter, int tokens) {
        counter.fetch_add(static_cast<std::uint64_t>(tokens), std::memory_order_relaxed);
    };
    add(probe.tokens_reused_disk, usage.restored_tokens);
    add(probe.tokens_reused_ram, usage.reused_tokens - usage.restored_tokens);
    add(probe.matches[static_cast<std::size_t>(usage.match)], 1);
    if (usage.why != miss_reason::none) add(probe.misses[static_cast<std::size_t>(usage.why)], 1);
}

// Returns: the prompt's prefix if all of it is in the pool, or if it is empty; nothing if it has to
// be read from disk first.
std::optional<storage::restored_prefix> hot_prefix(storage::agent_cache_store& store,
                                                   const resolved_prompt& prompt) {
    if (prompt.reuse_tokens == 0) return storage::restored_prefix{};
    return store.restore_hot(*prompt.source, prompt.reuse_tokens);
}

}  // namespace

starter::starter(const tokenizer& words, storage::block_pool& pool,
                 storage::agent_cache_store& store, const answer_rules& answers,
                 sequence_set& sequences, delivery& deliver, batch_outputs& outputs,
                 engine_probe& probe)
    : tokenizer_(words),
      pool_(pool),
      store_(store),
      answers_(answers),
      sequences_(sequences),
      deliver_(deliver),
      outputs_(outputs),
      probe_(probe),
      seeds_(std::random_device{}()) {}

void starter::begin(const job_ptr& work) {
    work->begin(std::chrono::steady_clock::now());
    probe_.running.fetch_add(1, std::memory_order_relaxed);
    work->restored = hot_prefix(store_, *work->prompt);
    if (work->restored) {
        start(work);
    } else {
        restoring_.push_back(work);
        outputs_.restore_prefix(work);
    }
}

void starter::restored(const job_ptr& work, storage::restored_prefix found) {
    const early_start* early = sequences_.early();
    if (early && early->work() == work) revoke_early();  // no step of it has completed
    if (std::erase(restoring_, work) == 0) return;       // started early, and confirmed
    work->restored = std::move(found);
    start(work);
}

void starter::start(const job_ptr& work) {
    revoke_early();
    try {
        auto run = make_sequence(work);
        announce(work);
        sequences_.add(
            std::move(run));  // last, because the calls before it may throw
                              // The sequence holds its blocks, so the files need no pin any more.
                              // If this pin is the last one, files may be deleted, which may block:
                              // then it is released later (release_files()).
        if (work->files && work->files->release_shared()) work->files.reset();
    } catch (const std::exception& error) {
        probe_.running.fetch_sub(1, std::memory_order_relaxed);
        outputs_.commit_end({work, failure_of(error, work->request.form)});
    }
}

std::unique_ptr<sequence> starter::make_sequence(const job_ptr& work) {
    // splitmix64's increment: any odd constant walks all seeds.
    seeds_ += 0x9E3779B97F4A7C15ull;
    work->choices_left = work->request.choices;
    storage::restored_prefix& known = *work->restored;
    auto run = std::make_unique<sequence>(work, 0, std::move(known.blocks), known.tokens, pool_,
                                          tokenizer_, answers_, seeds_, known.state);
    if (pool_.layout().has_states() && run->cache().token_count() != known.tokens) {
        // The sequence had to begin earlier than `known`, at the start of a group of wide-tail
        // rows, where no state was kept: it computes everything.
        known.state.reset();
        run = std::make_unique<sequence>(work, 0, std::vector<storage::kv_block_parts>(), 0, pool_,
                                         tokenizer_, answers_, seeds_);
    }
    // A prefix that ends inside a group of wide-tail rows which it does not have is cut to the
    // group's start.
    known.tokens = run->cache().token_count();
    known.tokens_read = std::min(known.tokens_read, known.tokens);
    return run;
}

void starter::announce(const job_ptr& work) {
    prompt_usage usage = usage_of(*work, pool_.layout().has_states());
    usage.not_held = work->form.not_held;
    usage.template_fit = work->prompt->template_fit;
    count_usage(usage, probe_);
    probe_.queue_time.observe(
        std::chrono::duration<double>(*work->admitted - work->submitted).count());
    // The sequence has the blocks that it shares; the source would keep the others in the pool.
    work->prompt->source.reset();
    probe_.feed->publish([&] {
        return request_admitted{work->id, work->prompt->agent, usage,
                                microseconds_between(work->submitted, *work->admitted)};
    });
    outputs_.emit_event(work, admitted{work->prompt->agent, std::move(usage), *work->admitted,
                                       std::string(work->prompt->begun())});
}

void starter::bring_back(sequence& run, std::shared_ptr<const storage::agent_state> memory,
                         int tokens) {
    resolved_prompt& prompt = *run.work_ptr()->prompt;
    prompt.source = std::move(memory);
    prompt.reuse_tokens = tokens;
    run.returns = true;
    outputs_.restore_prefix(run.work_ptr());
}

bool starter::take_back(const job_ptr& work, storage::restored_prefix& found) {
    sequence* run = sequences_.find_returning(work);
    if (run == nullptr) return false;
    revoke_early();
    const auto memory = std::exchange(work->prompt->source, nullptr);
    // Without any token read, it computes all of them.
    if (found.tokens > 0) run->go_on_from(std::move(found), memory->states);
    run->returns = false;
    sequences_.resume(*run);
    return true;
}

void starter::begin_early(const job_ptr& work, storage::restored_prefix begun) {
    // Only requests that wait for their prefix: not a preempted sequence, nor one that has ended.
    if (std::ranges::find(restoring_, work) == restoring_.end()) return;
    try {
        auto arrival = std::move(begun.arrival);
        work->restored = std::move(begun);
        sequences_.add_early(make_sequence(work), std::move(arrival));
        std::erase(restoring_, work);
    } catch (const std::exception&) {
        // The request does not start early. It fails again when its prefix is read, and its client
        // gets that failure.
    }
}

bool starter::wait_for_layer(int layer) {
    const early_start* early = sequences_.early();
    if (!early) return true;
    const auto found = early->wait(layer, outputs_);
    // The prefix is known to be whole: the client is notified now and not after the step.
    if (found == early_start::layer::last) {
        job_ptr work = early->work();
        sequences_.confirm_early();
        probe_.early_starts.fetch_add(1, std::memory_order_relaxed);
        announce(work);
    }
    return found != early_start::layer::not_there;
}

void starter::revoke_early() {
    if (sequences_.early()) restoring_.push_back(sequences_.revoke_early());
}

void starter::begin_choice(const open_choices::prompt_end& prompt) {
    int tokens = prompt.has_prompt() ? static_cast<int>(prompt.work->prompt->tokens.size()) : 0;
    sequence& run = sequences_.add(
        std::make_unique<sequence>(prompt.work, prompt.next, prompt.blocks, tokens, pool_,
                                   tokenizer_, answers_, prompt.seed, prompt.state));
    probe_.running.fetch_add(1, std::memory_order_relaxed);
    // If draw_ahead() returns false the choice waits for its form, and a later step draws.
    if (prompt.has_prompt() && run.draw_ahead(prompt.logits, form_share_least))
        deliver_.take_token(run, prompt.logits);
}

}  // namespace semantic::engine
