// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler/batch/batch.hpp"

#include <cmath>
#include <thread>
#include <utility>

#include "engine/scheduler/policy/draft_plan.hpp"

namespace semantic::engine {

namespace {

// An answer that is short of memory tries again after each pause, this long in all, because what
// holds the memory, such as a save that is just ending, soon frees it.
constexpr std::chrono::milliseconds short_pause{2};
constexpr std::chrono::milliseconds others_patience{2'000};

// Returns: why the request can never run: it names unknown tokens, or its prompt exceeds the
// context; nothing if it can.
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

}  // namespace

batch::batch(transformer& model, const tokenizer& words, storage::block_pool& pool,
             storage::agent_cache_store& store, batch_options options, engine_probe& probe,
             batch_outputs& outputs)
    : options_(std::move(options)),
      outputs_(outputs),
      pool_(pool),
      probe_(probe),
      waiting_(store, probe),
      delivery_(pool, store, options_.early_save_tokens, sequences_, open_choices_, outputs_,
                probe),
      starter_(words, pool, store, options_.answers, sequences_, delivery_, outputs_, probe),
      heads_(store, sequences_, waiting_, starter_, delivery_, probe),
      admitter_(pool, store, options_.chunks, options_.max_batch, waiting_, sequences_,
                open_choices_, starter_, heads_),
      rows_(pool, store, options_.chunks, options_.drafts),
      model_(model, logit_rows_max(options_.max_batch, options_.drafts), options_.vocabulary,
             probe) {}

void batch::add(job_ptr work) {
    if (auto refused = refusal(*work, options_)) {
        outputs_.commit_end({std::move(work), std::move(*refused)});
        return;
    }
    work->marks = prompt_marks(work->prompt->tokens);
    waiting_.push(std::move(work));
}

void batch::arriving(const job_ptr& work, storage::restored_prefix begun) {
    // `false`, here and in begin_choices(): whether saves hold blocks makes no difference to these.
    if (may_start_early(admitter_.load(false))) starter_.begin_early(work, std::move(begun));
}

void batch::restored(const job_ptr& work, storage::restored_prefix found) {
    if (!starter_.take_back(work, found)) starter_.restored(work, std::move(found));
}

bool batch::run_step() {
    const bool more = step();
    // Other models that share the pool's budget may wait for the memory of a busy one.
    const bool is_busy = !sequences_.running().empty() || !starter_.restoring().empty() ||
                         sequences_.count_returning() > 0;
    pool_.budget().set_busy(pool_, is_busy || outputs_.are_blocks_held());
    // A save or look-up may have begun since are_blocks_held() was called, and have marked the pool
    // busy, which the line above has undone: so ask again.
    if (!is_busy && outputs_.are_blocks_held()) pool_.budget().set_busy(pool_, true);
    return more;
}

// One step: ends what is to stop, gives slots to those that wait, and runs one pass for the rows
// that have frames. Returns: as run_step().
bool batch::step() {
    // Asked first: a save or look-up that ends from now on is followed by another step.
    const bool transient_holds = outputs_.are_blocks_held();
    const bool others_busy = pool_.budget().others_are_busy(pool_);  // likewise
    end_stopped();
    heads_.look_again();
    heads_.plan();
    begin_choices();
    if (sequences_.running().empty() && starter_.restoring().empty() &&
        sequences_.count_returning() == 0)
        pool_.budget().end_turn(pool_);  // the turn was given for an answer that has ended
    admitter_.admit(transient_holds);
    tell_waiting();
    // A prefix that has been read, or memory that comes free, causes another step.
    if (sequences_.running().empty()) return false;
    const std::vector<step_row> rows = rows_.choose(sequences_, heads_.planned(), model_.cost());
    if (rows.empty()) {
        if (const auto waiting = waiting_for_forms(); !waiting.empty()) {
            take_tokens(model_pass::run_forms(waiting));
            sequences_.remove_ended();
            return has_work();
        }
        // No sequence can get a frame. While a save is under way there is nothing to do but wait:
        // its agent becomes evictable when the save ends, and that causes another step.
        return transient_holds ? wait_for_others() : relieve(others_busy);
    }
    end_turn_where_there_is_room();
    const std::optional<step_run> watched = composition_of(rows);
    const auto began = std::chrono::steady_clock::now();
    run_rows(rows);
    if (watched) publish_step(*watched, std::chrono::steady_clock::now() - began);
    sequences_.remove_ended();
    // Again: choices that ended in this step have left their slots.
    begin_choices();
    return has_work();
}

// Notifies the clients of requests that did not begin in the first step that saw them: how many are
// before them, and about how long that takes. A request that waits for a shared head waits for the
// rest of that head to be computed.
void batch::tell_waiting() {
    for (const job_ptr& work : waiting_.jobs()) {
        if (std::exchange(work->told_to_wait, true)) continue;
        const auto head = heads_.planned().find(*work);
        if (!head) {
            outputs_.announce_wait(work, {waiting_.count_before(*work), std::chrono::seconds(0)});
            continue;
        }
        const double each = model_.cost().prefill_seconds(head->position).value_or(0.0);
        const double about = std::ceil(each * (head->end - head->position));
        // 1: the reader of the head is all that comes before this request.
        outputs_.announce_wait(work, {1, std::chrono::seconds(static_cast<std::int64_t>(about))});
    }
}

// Describes the step for the activity feed; nothing if nobody watches it. Called before the step
// runs, while sequences that end with it still exist.
std::optional<step_run> batch::composition_of(std::span<const step_row> rows) const {
    if (!probe_.feed->is_watched()) return std::nullopt;
    step_run composed;
    for (const step_row& row : rows)
        composed.shares.push_back({row.run->work().id, row.run->work().prompt->agent, row.tokens,
                                   row.run->view().decoding});
    return composed;
}

void batch::publish_step(step_run composed, std::chrono::steady_clock::duration took) {
    composed.took = std::chrono::duration_cast<std::chrono::microseconds>(took);
    probe_.feed->publish([&] { return std::move(composed); });
}

// Ends requests that were cancelled or whose deadline has passed, before a step works on them.
void batch::end_stopped() {
    // A request that started early may have half of its prefix: it goes back to those whose prefix
    // is being read, and ends when that has come.
    if (sequences_.early() && sequences_.early()->wants_to_stop()) starter_.revoke_early();
    for (job_ptr& work : waiting_.take_cancelled())
        outputs_.commit_end({std::move(work), finished{stop_reason::cancelled, {}, 0, false}});
    std::vector<std::pair<job_ptr, stop_reason>> stopping;
    for (const auto* some : {&sequences_.running(), &sequences_.preempted()})
        for (auto& run : *some)
            if (auto stop = run->work().wants_to_stop())
                stopping.emplace_back(run->work_ptr(), *stop);
    for (const auto& open : open_choices_)
        if (auto stop = open.work->wants_to_stop()) stopping.emplace_back(open.work, *stop);
    // end_request() puts the number of tokens into `finished`.
    for (auto& [work, stop] : stopping) delivery_.end_request(work, finished{stop, {}, 0, false});
    sequences_.remove_ended();
}

// Starts further choices of requests whose prompt is done, as long as batch slots are free for
// them.
void batch::begin_choices() {
    while (!open_choices_.empty()) {
        job_ptr work = open_choices_.front().work;
        if (!may_start_choice(admitter_.load(false), sequences_.runs(work))) break;
        try {
            starter_.begin_choice(open_choices_.front());
        } catch (const std::exception& error) {
            delivery_.end_request(work, failure_of(error, work->request.form));
            continue;  // its choices are gone
        }
        open_choices_.started();
    }
    sequences_.remove_ended();
}

// Runs the rows in one pass. If the pass throws, no sequence has changed: then each row runs alone,
// so that only the requests that cause the failure fail.
void batch::run_rows(std::span<const step_row> rows) {
    try {
        run_model(rows);
    } catch (const layer_not_there&) {
        starter_.revoke_early();
    } catch (const std::exception& error) {
        if (rows.size() == 1) {
            delivery_.end_request(rows[0].run->work_ptr(),
                                  failed{failure_kind::internal, error.what()});
            return;
        }
        for (const step_row& row : rows)
            if (!sequences_.has_ended(*row.run)) run_rows({&row, 1});
    }
}

void batch::run_model(std::span<const step_row> rows) {
    take_tokens(model_.run(rows, waiting_for_forms(), sequences_.early() ? &starter_ : nullptr));
    end_drafts(rows);
    for (const step_row& row : rows)
        fail_alone(*row.run, [&] {
            delivery_.publish_full_blocks(*row.run);
            heads_.publish_read(*row.run);
        });
}

// The sequences that have no row in this step, because the form that constrains their answer has
// not decided yet which token may come next.
std::vector<sampled_row> batch::waiting_for_forms() const {
    std::vector<sampled_row> waiting;
    for (const auto& run : sequences_.running())
        if (run->waits_for_form() && !sequences_.has_ended(*run))
            waiting.push_back({run.get(), run->kept_logits()});
    return waiting;
}

// Each sequence takes its drawn token, and the tokens of its draft that are right.
void batch::take_tokens(std::span<const sampled_row> drawn) {
    for (const sampled_row& row : drawn)
        fail_alone(*row.run, [&] {
            delivery_.take_token(*row.run, row.logits);
            take_drafts(row);
        });
}

// Accepts draft tokens one by one: as long as the drawn token is the draft's next one, the logits
// after the draft's token are those of the answer, and the next token is drawn from them.
void batch::take_drafts(const sampled_row& row) {
    const auto vocabulary = static_cast<std::size_t>(options_.vocabulary);
    for (auto rest = row.draft_logits; !rest.empty(); rest = rest.subspan(vocabulary)) {
        if (sequences_.has_ended(*row.run) || !row.run->take_drafted()) return;
        const std::span<const float> logits = rest.first(vocabulary);
        if (!model_.draw_after_draft(*row.run, logits)) return;
        delivery_.take_token(*row.run, logits);
    }
}

// Ends the step's drafts, and counts what ran and what was taken.
void batch::end_drafts(std::span<const step_row> rows) {
    for (const step_row& row : rows) {
        const drafting::outcome came = row.run->end_draft();
        const auto origin = static_cast<std::size_t>(came.origin);
        probe_.tokens_drafted[origin].fetch_add(static_cast<std::uint64_t>(came.count.drafted),
                                                std::memory_order_relaxed);
        probe_.drafts_taken[origin].fetch_add(static_cast<std::uint64_t>(came.count.taken),
                                              std::memory_order_relaxed);
    }
}

// Runs `action` for the sequence; what it throws ends that sequence's request alone.
template <class Action>
void batch::fail_alone(sequence& run, Action action) {
    try {
        action();
    } catch (const std::exception& error) {
        delivery_.end_request(run.work_ptr(), failure_of(error, run.work().request.form));
    }
}

// Called when no running sequence can get frames: makes room as decide_relief() says. Returns:
// whether another step can make progress now. `others_were_busy`: whether other models were at work
// before this step found no frames; what they have freed since may be enough for another try.
bool batch::relieve(bool others_were_busy) {
    starter_.revoke_early();
    if (!outputs_.are_blocks_held() && admitter_.forget_unsaved_of_preempted()) return true;
    batch_load now = admitter_.load(outputs_.are_blocks_held());
    now.others_busy = now.others_busy || others_were_busy;
    const bool inbound = outputs_.are_requests_arriving();
    relief decided = decide_relief(now, false, inbound);
    if (decided == relief::release_waiting) {
        if (admitter_.release_waiting_blocks()) return true;
        if (now.others_busy) now.has_turn = pool_.budget().take_turn(pool_);
        decided = decide_relief(now, true, inbound);
    }
    if (decided == relief::wait) return wait_for_others();
    // With relief::end_answer the answer still goes on if memory may come free, or if the shared
    // tail can be given up.
    if (decided == relief::preempt_youngest)
        preempt_youngest();
    else if (others_may_give_way() || sequences_.running().front()->drop_shared_tail())
        return true;
    else
        end_for_want_of_blocks(*sequences_.running().front());
    return has_work();
}

// Registers this pool to be notified when other models free memory. Returns: true at the first
// registration: what was freed just before it caused no notice, so the step is tried once more.
bool batch::wait_for_others() { return pool_.budget().want_word(pool_); }

// Gives up the turn among models (taken when all were short of frames) as soon as the running
// sequences can reach their last tokens with the free frames.
void batch::end_turn_where_there_is_room() {
    if (!pool_.budget().has_turn(pool_)) return;
    std::size_t wanted = 0;
    for (const auto& run : sequences_.running())
        wanted += frames_for_rest(pool_.layout(), options_.chunks, run->view(), run->tokens_most());
    if (pool_.free_count() >= wanted) pool_.budget().end_turn(pool_);
}

// Called when the only running answer is short of frames and no model is at work. If something else
// still holds memory, such as a save that is just ending, this sleeps for short_pause, at most
// others_patience in all. Returns: whether to try again.
bool batch::others_may_give_way() {
    const auto now = std::chrono::steady_clock::now();
    if (now - short_at_ > short_pause * 10) short_since_ = now;  // some step found room since
    short_at_ = now;
    const std::size_t frames = sequences_.running().front()->cache().frame_count();
    const std::size_t own = frames * pool_.layout().frame_bytes();
    if (pool_.budget().held_bytes() <= own || now - short_since_ > others_patience) return false;
    std::this_thread::sleep_for(short_pause);
    return true;
}

void batch::preempt_youngest() {
    sequence& run = sequences_.youngest_running();
    delivery_.publish_preempted(run);
    sequences_.preempt(run);
    // Its published memory becomes evictable once it is saved.
    if (run.choice() == 0)
        outputs_.save_agent(run.work().prompt->agent, storage::save_extent::everything);
}

// Ends the only running sequence, which has all of the pool: as context_full if it has answered
// something, otherwise as overloaded.
void batch::end_for_want_of_blocks(sequence& run) {
    if (run.output_tokens() > 0)
        delivery_.end_choice(run,
                             finished{stop_reason::context_full, {}, run.output_tokens(), false});
    else
        delivery_.end_request(
            run.work_ptr(),
            failed{failure_kind::overloaded,
                   "the KV cache is full of running conversations; try again later"});
    sequences_.remove_ended();
}

bool batch::has_work() const {
    return !sequences_.empty() || !waiting_.empty() || !open_choices_.empty();
}

}  // namespace semantic::engine
