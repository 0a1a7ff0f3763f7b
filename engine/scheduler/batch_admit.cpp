// batch: from waiting to running. Carries out what admission decides, and starts requests from what
// is there of their prefix.

#include <algorithm>

#include "engine/prompt/miss_reason.hpp"
#include "engine/scheduler/batch.hpp"

namespace semantic::engine {

namespace {

using clock = std::chrono::steady_clock;

prompt_usage usage_of(const job& work) {
    const resolved_prompt& prompt = *work.prompt;
    const storage::restored_prefix& restored = *work.restored;
    prompt_usage usage;
    usage.prompt_tokens = static_cast<int>(prompt.tokens.size());
    usage.reused_tokens = restored.tokens;
    // What existed but was lost, and the last token, which is always run: its logits are the
    // answer's start.
    usage.recomputed_tokens = prompt.reuse_tokens - restored.tokens + 1;
    usage.created_tokens = usage.prompt_tokens - usage.reused_tokens - usage.recomputed_tokens;
    usage.restored_tokens = restored.tokens_read;
    usage.why = prompt.why;
    usage.detail = prompt.detail;
    if (restored.why != storage::shortfall::none) {
        usage.detail = restored.detail;
        usage.why = reason_of(restored.why);
    }
    return usage;
}

void count_usage(const prompt_usage& usage, engine_probe& probe) {
    auto add = [](std::atomic<std::uint64_t>& counter, int tokens) {
        counter.fetch_add(static_cast<std::uint64_t>(tokens), std::memory_order_relaxed);
    };
    add(probe.tokens_reused_disk, usage.restored_tokens);
    add(probe.tokens_reused_ram, usage.reused_tokens - usage.restored_tokens);
    if (usage.why != miss_reason::none) add(probe.misses[static_cast<std::size_t>(usage.why)], 1);
}

std::size_t frames_for(const job& work, const storage::kv_layout& layout,
                       const chunk_policy& chunks) {
    return frames_for_prompt(layout, chunks, static_cast<int>(work.prompt->tokens.size()),
                             work.prompt->reuse_tokens);
}

std::optional<failed> refusal(const job& work, const batch_options& options) {
    auto unknown = [&](token_id token, const char* sentence, request_part at_fault) {
        failed why{failure_kind::bad_request, "token " + std::to_string(token) + sentence +
                                                  ": this model's tokens are 0 to " +
                                                  std::to_string(options.vocabulary - 1)};
        why.at_fault = at_fault;
        return why;
    };
    auto is_unknown = [&](token_id token) { return token < 0 || token >= options.vocabulary; };
    for (const token_bias& bias : work.request.sampling.biases)
        if (is_unknown(bias.token))
            return unknown(bias.token, " cannot be biased", request_part::biases);
    for (token_id token : work.request.ending.stop_tokens)
        if (is_unknown(token))
            return unknown(token, " cannot end an answer", request_part::stop_tokens);
    int tokens = static_cast<int>(work.prompt->tokens.size());
    if (tokens < options.answers.context_tokens_max) return std::nullopt;
    return failed{failure_kind::too_large,
                  "the prompt has " + std::to_string(tokens) +
                      " tokens; with room for an answer, this model and cache budget hold " +
                      std::to_string(options.answers.context_tokens_max) + " tokens a conversation",
                  {},
                  request_part::prompt,
                  prompt_excess{tokens, options.answers.context_tokens_max}};
}

// A prefix that is in the pool needs no other thread, and so no further step to begin in.
std::optional<storage::restored_prefix> hot_prefix(storage::agent_cache_store& store,
                                                   const resolved_prompt& prompt) {
    if (prompt.reuse_tokens == 0) return storage::restored_prefix{};
    return store.restore_hot(*prompt.source, prompt.reuse_tokens);
}

}  // namespace

void batch::add(job_ptr work) {
    if (auto refused = refusal(*work, options_)) {
        outputs_.commit({std::move(work), std::move(*refused)});
        return;
    }
    waiting_.push(std::move(work));
}

std::size_t batch::frames_promised() const {
    const storage::kv_layout& layout = pool_.layout();
    std::size_t frames = 0;
    for (const auto& run : sequences_.running())
        frames += frames_still_needed(layout, options_.chunks, run->view());
    for (const job_ptr& work : restoring_)
        frames += frames_for(*work, pool_.layout(), options_.chunks);
    return frames;
}

batch_load batch::load() const {
    return {static_cast<std::size_t>(options_.max_batch),
            sequences_.running().size(),
            restoring_.size(),
            sequences_.preempted().size(),
            waiting_.size(),
            transient_holds_};
}

void batch::admit() {
    for (;;) {
        switch (next_candidate(load())) {
            case candidate::none:
                return;
            case candidate::preempted:
                if (!resume_oldest()) return;
                break;
            case candidate::waiting:
                if (!admit_first()) return;
                break;
        }
    }
}

// Evicts memory that nobody runs on, as far as the pool needs it for a candidate. Returns: whether
// the candidate begins. Requests that wait let go of blocks where need be, the candidate apart.
bool batch::make_room_for(candidate next, std::size_t frames, const storage::agent_id* keep) {
    const std::size_t need = frames_to_free(next, frames_promised(), frames, pool_.layout());
    const std::size_t others = next == candidate::waiting ? 1 : 0;
    for (bool released = false;;) {
        switch (decide_admission(load(), store_.make_room(need, keep), released)) {
            case admission::admit:
                return true;
            case admission::wait:
                return false;
            case admission::release_waiting:
                released = !release_waiting_blocks(others);
        }
    }
}

// Those that gave their blocks back go on, the oldest first.
bool batch::resume_oldest() {
    sequence& oldest = sequences_.oldest_preempted();
    const std::size_t frames = frames_for_sequence(pool_.layout(), options_.chunks, oldest.view());
    if (!make_room_for(candidate::preempted, frames, &oldest.work().prompt->agent)) return false;
    sequences_.resume(oldest);
    return true;
}

bool batch::admit_first() {
    job_ptr work = waiting_.front();
    const storage::agent_id* keep = work->prompt->source ? &work->prompt->source->id : nullptr;
    if (!make_room_for(candidate::waiting, frames_for(*work, pool_.layout(), options_.chunks),
                       keep))
        return false;
    waiting_.pop_front();
    work->admitted = clock::now();
    probe_.running.fetch_add(1, std::memory_order_relaxed);
    work->restored = hot_prefix(store_, *work->prompt);
    if (work->restored) {
        start(work);
    } else {
        restoring_.push_back(work);
        outputs_.restore(work);
    }
    return true;
}

void batch::restored(const job_ptr& work, storage::restored_prefix found) {
    if (early_ && early_->work() == work) revoke_early_start();  // no step of it has run
    if (std::erase(restoring_, work) == 0) return;               // started early, and confirmed
    work->restored = std::move(found);
    start(work);
}

void batch::start(const job_ptr& work) {
    if (early_) revoke_early_start();
    try {
        begin(work);
    } catch (const std::exception& error) {
        probe_.running.fetch_sub(1, std::memory_order_relaxed);
        outputs_.commit({work, failed{failure_kind::internal, error.what()}});
    }
}

void batch::begin(const job_ptr& work) {
    auto run = make_sequence(work);
    announce(work);
    sequences_.add(std::move(run));  // last: what failed before does not run
    // The sequence has its own hold on the blocks. Files that nobody else keeps are released later,
    // where deleting may block.
    if (work->files && work->files->release_shared()) work->files.reset();
}

std::unique_ptr<sequence> batch::make_sequence(const job_ptr& work) {
    // splitmix64's increment: any odd constant walks all seeds.
    seeds_ += 0x9E3779B97F4A7C15ull;
    work->choices_left = work->request.choices;
    return std::make_unique<sequence>(work, 0, std::move(work->restored->blocks),
                                      work->restored->tokens, pool_, tokenizer_, options_.answers,
                                      seeds_);
}

void batch::announce(const job_ptr& work) {
    prompt_usage usage = usage_of(*work);
    usage.not_held = work->form.not_held;
    count_usage(usage, probe_);
    work->prompt->source.reset();
    outputs_.emit(work, admitted{work->prompt->agent, std::move(usage), *work->admitted});
}

void batch::arriving(const job_ptr& work, storage::restored_prefix begun) {
    if (!may_start_early(load())) return;
    try {
        auto arrival = std::move(begun.arrival);
        work->restored = std::move(begun);
        early_.emplace(sequences_.add(make_sequence(work)), std::move(arrival));
        std::erase(restoring_, work);
    } catch (const std::exception&) {
        // The request fails again when its prefix is there, and that is then its answer.
    }
}

bool batch::wait_for_early_layer(int layer) {
    if (!early_) return true;
    const auto found = early_->wait(layer, outputs_.inbound);
    // The client need not wait for the rest of the step to learn what was found.
    if (found == early_start::layer::last) confirm_early_start();
    return found != early_start::layer::not_there;
}

// All of the prefix is there and was right: a request like any other from here on.
void batch::confirm_early_start() {
    job_ptr work = early_->work();
    early_.reset();
    probe_.early_starts.fetch_add(1, std::memory_order_relaxed);
    announce(work);
}

// The request waits for restored(), like any other whose prefix is being read.
void batch::revoke_early_start() {
    restoring_.push_back(early_->work());
    sequences_.remove(early_->run());
    early_.reset();
}

// Requests hold the blocks that they will start from while they wait, and so do choices. Those from
// the `from`-th request on let go of them: first of what is in files, and when there is no more of
// it, of what may have to be computed again. Returns: whether any did.
bool batch::release_waiting_blocks(std::size_t from) {
    if (waiting_.release_saved_blocks(from)) return true;
    const bool any = waiting_.release_blocks(from);
    return open_choices_.release_blocks() || any;
}

}  // namespace semantic::engine
