#include "engine/scheduler/batch.hpp"

#include <oneapi/tbb/parallel_for.h>

#include <algorithm>
#include <random>

namespace semantic::engine {

namespace {

using clock = std::chrono::steady_clock;

double seconds_since(clock::time_point start) {
    return std::chrono::duration<double>(clock::now() - start).count();
}

}  // namespace

batch::batch(transformer& model, const tokenizer& words, storage::block_pool& pool,
             storage::agent_cache_store& store, batch_options options, engine_probe& probe,
             batch_outputs outputs)
    : model_(model),
      tokenizer_(words),
      pool_(pool),
      store_(store),
      options_(std::move(options)),
      probe_(probe),
      outputs_(std::move(outputs)),
      waiting_(store, probe),
      seeds_(std::random_device{}()),
      logits_(static_cast<std::size_t>(options_.max_batch + 1) *
              static_cast<std::size_t>(options_.vocabulary)) {}

// Requests that were cancelled or ran out of time leave before anything more is spent on them.
void batch::end_stopped() {
    // An early start may have half of its prefix: the request ends when the prefix has come.
    if (early_ && early_->wants_to_stop()) revoke_early_start();
    for (auto& [work, why] : waiting_.take_stopped())
        outputs_.commit({std::move(work), finished{why, {}, 0, false}});
    std::vector<std::pair<job_ptr, stop_reason>> stopping;
    for (const auto* some : {&sequences_.running(), &sequences_.preempted()})
        for (auto& run : *some)
            if (auto stop = run->work().wants_to_stop())
                stopping.emplace_back(run->work_ptr(), *stop);
    for (const auto& open : open_choices_)
        if (auto stop = open.work->wants_to_stop()) stopping.emplace_back(open.work, *stop);
    for (auto& [work, stop] : stopping) end(work, finished{stop, {}, 0, false});
    sequences_.remove_ended();
}

// Room for `tokens` more tokens of one sequence; evicts memory that nobody runs on.
bool batch::reserve_frames(sequence& run, int tokens) {
    int has = run.cache().token_count(), total = has + tokens;
    if (run.cache().reserve(total)) return true;
    const storage::kv_layout& layout = pool_.layout();
    // A block more than the growth: a shared tail is copied before it is written.
    int blocks = (total + layout.block_tokens() - 1) / layout.block_tokens() -
                 (has + layout.block_tokens() - 1) / layout.block_tokens() + 1;
    auto need = static_cast<std::size_t>(blocks * layout.layer_count());
    store_.make_room(need, &run.work().prompt->agent);
    if (run.cache().reserve(total)) return true;
    // What was saved of this very agent comes last: it shares all but its tail with the sequence.
    store_.make_room(need, nullptr);
    return run.cache().reserve(total).has_value();
}

std::vector<std::pair<sequence*, int>> batch::choose() {
    std::vector<sequence_view> views;
    for (const auto& run : sequences_.running()) views.push_back(run->view());
    step_plan plan = plan_step(views, options_.chunks, cost_, last_prefilled_);
    std::vector<std::pair<sequence*, int>> chosen;
    for (std::size_t index : plan.decode)
        if (reserve_frames(*sequences_.running()[index], 1))
            chosen.emplace_back(sequences_.running()[index].get(), 1);
    if (plan.prefill) {
        sequence& run = *sequences_.running()[plan.prefill->index];
        last_prefilled_ = run.work().id;
        // A chunk needs its frames of every layer at once, a window's worth is left of some.
        int tokens = plan.prefill->tokens;
        bool ready = reserve_frames(run, tokens);
        while (!ready && tokens > options_.chunks.min_tokens) {
            tokens = std::max(tokens / 2, options_.chunks.min_tokens);
            ready = reserve_frames(run, tokens);
        }
        if (ready) chosen.emplace_back(&run, tokens);
    }
    return chosen;
}

// A step that fails has changed no sequence. Each is tried alone then, so that one request's fault
// is not another's.
void batch::run_each(const std::vector<std::pair<sequence*, int>>& chosen) {
    try {
        run_model(chosen);
    } catch (const layer_not_there&) {
        revoke_early_start();
    } catch (const std::exception& error) {
        if (chosen.size() > 1) {
            for (const auto& one : chosen)
                if (!sequences_.has_ended(*one.first)) run_each({one});
        } else {
            end(chosen[0].first->work_ptr(), failed{failure_kind::internal, error.what()});
        }
    }
}

void batch::run_model(const std::vector<std::pair<sequence*, int>>& chosen) {
    auto vocabulary = static_cast<std::size_t>(options_.vocabulary);
    std::vector<sequence_step> steps;
    std::vector<int> last(chosen.size());
    std::vector<std::pair<sequence*, const float*>> sampled;
    step_sample measured;
    const bool early = early_.has_value();
    const std::function<bool(int)> wait = [this](int layer) { return wait_for_early_layer(layer); };
    for (std::size_t i = 0; i < chosen.size(); ++i) {
        auto [run, count] = chosen[i];
        last[i] = count - 1;
        bool sample_it = run->reaches_end(count);
        float* logits = logits_.data() + sampled.size() * vocabulary;
        steps.push_back({run->next_tokens(count), &run->cache(),
                         sample_it ? std::span<const int>(&last[i], 1) : std::span<const int>(),
                         sample_it ? logits : nullptr, early ? &wait : nullptr});
        if (sample_it) sampled.emplace_back(run, logits);
        if (run->prompt_done()) {
            ++measured.decoding;
            continue;
        }
        measured.chunk_position = run->view().position;
        measured.chunk_tokens = count;
    }
    auto begin = clock::now();
    model_.forward(steps);
    measured.seconds = seconds_since(begin);
    if (!early) cost_.learn(measured);  // what it waited for the disk is no cost of computing
    probe_.tokens_prefilled.fetch_add(static_cast<std::uint64_t>(measured.chunk_tokens),
                                      std::memory_order_relaxed);
    probe_.steps.fetch_add(1, std::memory_order_relaxed);
    probe_.step_duration.observe(measured.seconds);
    auto apart = [this](sequence& run, auto what) {
        try {
            what();
        } catch (const std::exception& error) {
            end(run.work_ptr(), failed{failure_kind::internal, error.what()});
        }
    };
    draw_ahead(sampled);
    for (auto [run, logits] : sampled) apart(*run, [&] { sample(*run, {logits, vocabulary}); });
    for (auto [run, count] : chosen) apart(*run, [&] { publish_full_blocks(*run); });
}

// A draw reads the whole vocabulary, some hundred microseconds of work: all threads take part. One
// that fails here is made again by sample(), and fails there for its request alone.
void batch::draw_ahead(const std::vector<std::pair<sequence*, const float*>>& sampled) const {
    auto vocabulary = static_cast<std::size_t>(options_.vocabulary);
    oneapi::tbb::parallel_for(std::size_t{0}, sampled.size(), [&](std::size_t i) {
        auto [run, logits] = sampled[i];
        try {
            run->draw_ahead({logits, vocabulary});
        } catch (const std::exception&) {
        }
    });
}

void batch::sample(sequence& run, std::span<const float> logits) {
    if (sequences_.has_ended(run)) return;  // with another choice of its request
    bool first = run.output_tokens() == 0;
    if (first && run.choice() == 0) prompt_finished(run, logits);
    sequence::accepted out = run.accept(logits);
    if (run.output_tokens() > 0) {
        probe_.tokens_decoded.fetch_add(1, std::memory_order_relaxed);
        if (!first)
            probe_.inter_token.observe(seconds_since(run.last_token_at));
        else if (run.choice() == 0)
            probe_.time_to_first_token.observe(seconds_since(run.work().submitted));
        run.last_token_at = clock::now();
        outputs_.emit(run.work_ptr(), token_text{std::move(out.text), run.last_token(),
                                                 run.choice(), std::move(out.scores)});
    }
    if (out.ended)
        end_choice(run, finished{*out.ended, run.stop_sequence(), run.output_tokens(), false});
}

void batch::prompt_finished(sequence& run, std::span<const float> logits) {
    const job& work = run.work();
    // A long new prompt goes to disk while its answer is generated, so that little is left to write
    // at the end. One of several choices is published in any case: they share its blocks, and
    // sliding frames that the window has passed are handed out only once.
    bool is_long = run.view().position - work.prompt->reuse_tokens >= options_.early_save_tokens;
    if (!is_long && work.request.choices == 1) return;
    // What is not a full block yet would be written again at the end, and copied when the first
    // token of the answer joins it.
    if (work.request.choices == 1 && (!pool_.layout().slides() || run.cache().window_has_moved())) {
        store_.put_unfinished(run.snapshot_of_whole_blocks());
        outputs_.save(work.prompt->agent, storage::save_extent::everything);
        return;
    }
    storage::agent_state memory = run.snapshot();
    if (work.request.choices > 1)
        open_choices_.add(
            {run.work_ptr(), memory.blocks, {logits.begin(), logits.end()}, run.seed()});
    store_.put_unfinished(std::move(memory));
    outputs_.save(work.prompt->agent, storage::save_extent::full_blocks);
}

// Sliding frames that the window has passed go to disk, for who parts from this conversation later,
// and their room to who needs it now. Those of further choices are remembered by nobody.
void batch::publish_full_blocks(sequence& run) {
    if (sequences_.has_ended(run) || !run.cache().window_has_moved()) return;
    if (run.choice() != 0) {
        run.cache().share_whole_blocks();
        return;
    }
    store_.put_unfinished(run.snapshot_of_whole_blocks());
    outputs_.save(run.work().prompt->agent, storage::save_extent::everything);
}

// Choices whose prompt is done need no more than a place in the step.
void batch::start_choices() {
    while (!open_choices_.empty() &&
           may_start_choice(load(), sequences_.runs(open_choices_.front().work))) {
        job_ptr work = open_choices_.front().work;
        try {
            start_choice();
        } catch (const std::exception& error) {
            end(work, failed{failure_kind::internal, error.what()});
            continue;  // its choices are gone
        }
        open_choices_.started();
    }
    sequences_.remove_ended();
}

void batch::start_choice() {
    const open_choices::prompt_end& open = open_choices_.front();
    int prompt_tokens = open.has_prompt() ? static_cast<int>(open.work->prompt->tokens.size()) : 0;
    sequence& run =
        sequences_.add(std::make_unique<sequence>(open.work, open.next, open.blocks, prompt_tokens,
                                                  pool_, tokenizer_, options_.answers, open.seed));
    probe_.running.fetch_add(1, std::memory_order_relaxed);
    if (open.has_prompt()) sample(run, open.logits);
}

// One choice is complete; the request is when all are. Only the first one's memory is kept: it is
// the one a conversation goes on with.
void batch::end_choice(sequence& run, finished last) {
    job& work = *run.work_ptr();
    if (work.request.choices > 1)
        outputs_.emit(run.work_ptr(), choice_finished{run.choice(), last.why, last.stop_sequence,
                                                      last.output_tokens});
    work.output_tokens += last.output_tokens;
    if (run.choice() == 0) {
        remember(run, true);
        work.first_end = std::move(last);
    }
    mark_ended(run);
    if (--work.choices_left > 0) {
        if (run.choice() == 0 && work.remembered)
            outputs_.save(work.prompt->agent, storage::save_extent::everything);
        return;
    }
    work.first_end.output_tokens = work.output_tokens;
    outputs_.commit({run.work_ptr(), work.first_end, work.remembered});
}

// The whole request is over, whatever its choices had come to.
void batch::end(const job_ptr& work, generation_event last) {
    bool runs = false;
    for (const auto* some : {&sequences_.running(), &sequences_.preempted()})
        for (auto& run : *some) {
            if (run->work_ptr() != work || sequences_.has_ended(*run)) continue;
            runs = true;
            work->output_tokens += run->output_tokens();
            if (run->choice() == 0) remember(*run, false);
            mark_ended(*run);
        }
    bool waits = open_choices_.drop(work);
    if (!runs && !waits) return;  // it is over already
    if (auto* end = std::get_if<finished>(&last)) end->output_tokens = work->output_tokens;
    outputs_.commit({work, std::move(last), work->remembered});
}

// Published here and not on the way out: the next step must see that its frames are not lost.
void batch::remember(sequence& run, bool complete) {
    if (run.view().position == 0 || is_early(run)) return;
    if (complete)
        store_.put(run.snapshot_at_end());
    else
        store_.put_unfinished(run.snapshot());
    run.work_ptr()->remembered = true;
}

void batch::mark_ended(sequence& run) {
    if (is_early(run)) early_.reset();
    sequences_.end(run);
    probe_.running.fetch_sub(1, std::memory_order_relaxed);
}

// Nothing could run: every sequence waits for blocks that only another can free. Returns: whether a
// step may make progress now.
bool batch::relieve() {
    if (early_) revoke_early_start();
    batch_load now = load();
    now.transient_holds = outputs_.transient_holds();
    const bool inbound = outputs_.inbound();
    relief decided = decide_relief(now, false, inbound);
    if (decided == relief::release_waiting) {
        if (release_waiting_blocks(0)) return true;
        decided = decide_relief(now, true, inbound);
    }
    if (decided == relief::wait) return false;
    if (decided == relief::preempt_youngest)
        preempt_youngest();
    else
        end_for_want_of_blocks(*sequences_.running().front());
    return has_work();
}

void batch::preempt_youngest() {
    sequence& run = sequences_.youngest_running();
    sequences_.preempt(run);
    // What was published of it, if anything, is to be evictable too.
    if (run.choice() == 0)
        outputs_.save(run.work().prompt->agent, storage::save_extent::everything);
}

void batch::end_for_want_of_blocks(sequence& run) {
    if (run.output_tokens() > 0)
        end_choice(run, finished{stop_reason::context_full, {}, run.output_tokens(), false});
    else
        end(run.work_ptr(),
            failed{failure_kind::overloaded,
                   "the KV cache is full of running conversations; try again later"});
    sequences_.remove_ended();
}

bool batch::run_step() {
    // Asked first: a save or look-up that ends from now on is followed by another step.
    transient_holds_ = outputs_.transient_holds();
    end_stopped();
    start_choices();
    admit();
    if (sequences_.running().empty()) return false;
    std::vector<std::pair<sequence*, int>> chosen = choose();
    if (chosen.empty()) {
        // Dirty agents become evictable when their save ends, which wakes the step node again. One
        // that nobody is saving stays dirty: of a running one only the full blocks may be on disk.
        return transient_holds_ ? false : relieve();
    }
    run_each(chosen);
    sequences_.remove_ended();
    start_choices();
    return has_work();
}

bool batch::has_work() const {
    return !sequences_.empty() || !waiting_.empty() || !open_choices_.empty();
}

}  // namespace semantic::engine
