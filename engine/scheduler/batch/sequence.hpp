// SPDX-License-Identifier: Apache-2.0
#pragma once
// A running request: its tokens, its text, its blocks, and the rules that end it. No threads, no
// clock. Owner: batch. Thread: confined to the step node.

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/grammar/output_constraint.hpp"
#include "engine/model/sampler.hpp"
#include "engine/scheduler/policy/kept_places.hpp"
#include "engine/scheduler/policy/plan.hpp"
#include "engine/scheduler/queue/job.hpp"
#include "engine/scheduler/speculation/drafting.hpp"
#include "engine/scheduler/states/sequence_states.hpp"
#include "engine/text/output/answer_format.hpp"
#include "engine/text/output/stop_matcher.hpp"
#include "engine/text/output/utf8_stream.hpp"
#include "engine/text/tokenizer/tokenizer.hpp"
#include "storage/pool/block_pool.hpp"

namespace semantic::engine {

/// How answers of a model are drawn and what ends them, where the request says nothing.
struct answer_rules {
    std::vector<token_id> stop_tokens;  // sorted
    int context_tokens_max = 0;
    sampling_rules sampling;      // where a request says nothing
    answer_format answers{};      // how reasoning is marked in the text
    std::string chat_template{};  // its family, for refusals
    std::string thinking_end{};   // what ends the reasoning once its budget is spent
    place_rules places{};         // where a memory keeps recurrent states, where the model has them
    // Of the automaton that holds an answer to its form, after each token.
    std::size_t kept_form_bytes = output_constraint::kept_automaton_bytes_max;
};

class sequence {
  public:
    /// Starts from `known` tokens whose KV `blocks` hold, at most the whole prompt, with `state`,
    /// the recurrent state after them, where the model has such. `seed` draws choice 0 of a request
    /// that has none of its own. Requires: work->prompt is set.
    sequence(job_ptr work, int choice, std::vector<storage::kv_block_parts> blocks, int known,
             storage::block_pool& pool, const tokenizer& words, const answer_rules& rules,
             std::uint64_t seed, storage::recurrent_ptr state = {});

    const job& work() const { return *work_; }
    const job_ptr& work_ptr() const { return work_; }
    int choice() const { return choice_; }
    std::uint64_t seed() const { return seed_; }
    sequence_view view() const;
    storage::kv_sequence& cache() { return cache_; }
    sequence_states& states() { return states_; }
    /// Takes frames for `tokens` tokens in all, and memory for the recurrent state after them.
    /// Errors: pool_exhausted (the frames that were taken stay).
    storage::result<void> reserve(int tokens);
    /// Says that the model has run the tokens up to cache().token_count().
    void step_has_run() { states_.advance(cache_.token_count()); }
    /// The same of a step with `drafts` tokens of a draft after these. `rewind`: as
    /// transformer::rewind() for this sequence; called before the model runs again, or never.
    void step_has_run(int drafts, std::function<void(int count)> rewind);
    /// Gives up what makes reserve() copy, so that what fits when it is read whole fits when it
    /// goes on; computes that again. Returns: whether there was any.
    bool drop_shared_tail();
    /// The next `count` tokens to run, at positions cache().token_count() ...; a draft that was
    /// begun is of them.
    std::span<const token_id> next_tokens(int count) const;
    /// Whether running `count` more tokens reaches the last known one, so that its logits are to be
    /// sampled.
    bool reaches_end(int count) const;
    /// Whether nothing but the latest token is left to run; after give_back_blocks() the answer so
    /// far counts as prompt.
    bool prompt_done() const {
        int position = cache_.token_count();
        return position >= prompt_tokens_ && position + 1 >= static_cast<int>(tokens_.size());
    }

    /// Takes in what drafts are made from, a bounded part of it: called while the prompt is read,
    /// so that little is left when the first token is known.
    void prepare_drafts();
    /// What may come after the latest token, by what came before. Requires: prompt_done().
    draft_view look_for_draft();
    /// The next step runs the first `count` tokens of it too. Requires: reserved for them.
    void begin_draft(int count);
    /// Whether the token that accept() took last is the draft's next one: its K and V are there,
    /// and the next logits of the step are those after it.
    bool take_drafted();
    /// The step is over. Returns: how much of a draft it ran, and was taken.
    drafting::outcome end_draft();
    /// What its drafts have come to so far.
    draft_usage drafted() const;

    struct accepted {
        std::string text;                    // to show now
        std::optional<token_scores> scores;  // as the request asked
        std::optional<stop_reason> ended;    // set with the last token
    };
    /// Draws the token that accept() will take, from the logits of the last known token. May run at
    /// the same time as those of other sequences. `form_work`: places that the automaton of the
    /// answer's form may look at for it. Returns: whether accept() has what it needs. If not, the
    /// sequence keeps the logits and runs no token until this, called with the same logits, has
    /// returned true.
    bool draw_ahead(std::span<const float> logits, std::int64_t form_work);
    /// Whether the form has still to say which token may come next.
    bool waits_for_form() const { return !kept_logits_.empty(); }
    /// Those that draw_ahead() kept; empty where it did not. Valid until accept().
    std::span<const float> kept_logits() const { return kept_logits_; }
    bool has_form() const { return constraint_.has_value(); }
    /// Takes the token up that draw_ahead() has drawn from the same logits, or else draws it.
    /// Throws: what drawing it threw.
    accepted accept(std::span<const float> logits);
    token_id last_token() const { return last_token_; }
    int output_tokens() const { return output_tokens_; }
    const std::string& stop_sequence() const { return stop_sequence_; }
    /// With all that may still come of its answer.
    int tokens_most() const;

    std::chrono::steady_clock::time_point last_token_at;  // the batch's, for its figures
    int published = 0;            // the batch's: tokens of the memory that was published last
    std::uint64_t looked_at = 0;  // the batch's: publications when it looked for its prompt again

    bool returns = false;  // the batch's: it was preempted, and its memory is being read

    /// All that it knows: its prompt, and what was sampled and belongs to the text.
    std::span<const token_id> tokens() const { return tokens_; }
    /// Starts again at position 0, with all tokens known so far as its prompt.
    void give_back_blocks();
    /// Goes on after those of its tokens that `prefix` has, in place of its own. `kept`: the
    /// recurrent states of the memory that these are of.
    void go_on_from(storage::restored_prefix prefix, const std::vector<storage::kept_state>& kept);

    /// The memory as far as KV exists now. The blocks are shared with the caller from then on.
    /// `goes_on`: a longer version of it follows.
    storage::agent_state snapshot(bool goes_on = false);
    /// The same for a sequence that gives way and returns to it: the state there is to be written.
    storage::agent_state snapshot_to_return();
    /// The same when the answer is complete: with the place where it ends.
    storage::agent_state snapshot_at_end();
    /// The same without the tokens of a partly filled last block, which stays the sequence's own.
    storage::agent_state snapshot_of_whole_blocks();

  private:
    void go_on_from(std::vector<storage::kv_block_parts> blocks, int tokens);
    storage::agent_state snapshot(std::vector<storage::kv_block_parts> blocks, int tokens) const;
    std::vector<planned_place> plan_own_places() const;
    drafting& open_drafting();
    /// The recurrent state of a step with a draft becomes that after what was taken.
    void settle_states();
    storage::message_end end_of_answer(const storage::agent_state& memory) const;
    /// Notes an answer that did not end by itself with the turns that the model wrote.
    void note_cut_turn(const storage::message_end& end, storage::agent_state& memory) const;
    /// A budget for reasoning that is spent while the model still reasons: what ends the reasoning
    /// comes next, whatever the model would say.
    void end_thinking();
    void draw(std::span<const float> logits);
    token_id draw_first(std::span<const float> logits);
    token_id draw_allowed(std::span<const float> logits);
    token_id draw_freely(std::span<const float> logits);
    /// `logits` with those of tokens that may not end the answer yet at -infinity; valid until the
    /// next call.
    std::span<const float> without_ends(std::span<const float> logits);
    std::optional<stop_reason> take(token_id token, std::string& shown);
    token_scores scores_of(std::span<const float> logits, token_id token) const;

    job_ptr work_;
    int choice_;
    std::uint64_t seed_;  // of choice 0
    const tokenizer& tokenizer_;
    const answer_rules& rules_;
    storage::block_pool& pool_;
    const int block_tokens_;
    storage::kv_sequence cache_;
    sequence_states states_;
    std::vector<token_id> tokens_;  // prompt, then what was sampled and belongs to the text
    std::vector<std::uint32_t> token_ends_;
    std::string text_;
    int prompt_tokens_ = 0;
    int output_tokens_ = 0;
    bool ended_turn_ = false;  // by a stop token: the text holds all that was sampled
    token_id last_token_ = 0;
    sampler sampler_;
    const std::vector<token_id> stop_tokens_;  // the model's and the request's, sorted
    std::vector<float> open_logits_;           // scratch of without_ends()
    std::optional<output_constraint> constraint_;
    utf8_stream utf8_;
    stop_matcher stops_;
    std::string stop_sequence_;
    std::vector<token_id> forced_;  // taken before anything is sampled, the next one last
    /// The next token, as far as it is drawn: its form may take more than one step to say.
    struct open_draw {
        bool is_begun = false;          // whether a spent budget for reasoning was looked at
        std::optional<token_id> token;  // what is drawn so far
        bool is_refused = false;        // whether another has to be drawn
        bool is_allowed = false;        // whether it is the one
        bool is_taken = false;          // by the constraint too
        std::optional<token_scores> scores;
        std::exception_ptr failure;  // why there is none
    };
    open_draw open_draw_;
    std::optional<drafting> drafting_;  // while the sequence runs
    draft_usage drafted_before_;        // it gave its blocks back
    /// A step with a draft of which is not said yet how much is taken.
    struct open_step {
        int first = 0;  // its first position
        int count = 0;  // its tokens
        std::function<void(int)> rewind;
    };
    std::optional<open_step> open_step_;  // where there are recurrent states
    std::vector<float> kept_logits_;      // those that the open draw is made from; empty: a step's
};

}  // namespace semantic::engine
