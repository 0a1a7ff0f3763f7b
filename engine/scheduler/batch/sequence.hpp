// SPDX-License-Identifier: Apache-2.0
#pragma once
// A request (one choice of it) while it is computed: its tokens, its text, its blocks, and the
// rules that end it. No threads, no clock. Owner: batch. Thread: confined to the step node.

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

/// A model's defaults: how answers are drawn and what ends them if the request does not say.
struct answer_rules {
    std::vector<token_id> stop_tokens;  // sorted
    int context_tokens_max = 0;
    sampling_rules sampling;      // defaults
    answer_format answers{};      // how reasoning and calls are marked in the text
    std::string chat_template{};  // the template's family, for error messages
    std::string thinking_end{};   // text that ends the reasoning once its budget is spent
    place_rules places{};         // where a memory keeps recurrent states, if the model has them
    // Bytes that the automaton of an answer's form may keep after each token.
    std::size_t kept_form_bytes = output_constraint::kept_automaton_bytes_max;
};

class sequence {
  public:
    /// Starts after the first `known` tokens of the prompt (at most all), whose KV is in `blocks`.
    /// `state`: the recurrent state after them; null for models without such. `seed`: used if the
    /// request has none. Requires: work->prompt is set.
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
    /// Takes pool frames for `tokens` tokens in all, and memory for the recurrent state after them.
    /// Errors: pool_exhausted; the frames that were taken before it stay.
    storage::result<void> reserve(int tokens);
    /// Called after the model has run the tokens up to cache().token_count(): makes the recurrent
    /// state that it has written the current one.
    void step_has_run() { states_.advance(cache_.token_count()); }
    /// Called after a step that also ran `drafts` draft tokens after these. The state is settled
    /// when it is known how many were taken. `rewind(count)`: makes the state after the first
    /// `count` tokens of the step, see transformer::rewind(); called before the model runs again,
    /// or never.
    void step_has_run(int drafts, std::function<void(int count)> rewind);
    /// Gives up a last block that is partly filled and shared with a memory: to continue in it
    /// reserve() needs a frame for a copy. Its tokens are computed again. Called when the pool has
    /// no frame for the copy. Returns: whether there was such a block.
    bool drop_shared_tail();
    /// The next `count` tokens to run, from position cache().token_count() on; includes the tokens
    /// of a draft that was begun.
    std::span<const token_id> next_tokens(int count) const;
    /// Whether the last known token is among the next `count` ones, so that the next token is drawn
    /// from its logits.
    bool reaches_end(int count) const;
    /// Whether only the latest token is left to run: the sequence decodes. After
    /// give_back_blocks() the answer so far counts as prompt.
    bool prompt_done() const {
        int position = cache_.token_count();
        return position >= prompt_tokens_ && position + 1 >= static_cast<int>(tokens_.size());
    }

    /// Indexes tokens for drafts, a bounded number a call: called while the prompt is read, so that
    /// few are left when the first token is known.
    void prepare_drafts();
    /// Makes a draft of tokens that may follow the latest one. Requires: prompt_done().
    draft_view look_for_draft();
    /// Has the next step run the first `count` tokens of the draft. Requires: reserve() for them.
    void begin_draft(int count);
    /// Compares the token that accept() took last with the draft's next one. Returns: whether they
    /// are the same; then its K and V exist already, and the step has the logits after it.
    bool take_drafted();
    /// Ends the step's draft, if it had one. Returns: how many of its tokens ran and were taken.
    drafting::outcome end_draft();
    /// Sums over the sequence's drafts so far.
    draft_usage drafted() const;

    /// What a token adds to the answer.
    struct accepted {
        std::string text;                    // that the client gets now: whole characters only
        std::optional<token_scores> scores;  // if the request asked for them
        std::optional<stop_reason> ended;    // set with the last token
    };
    /// Draws the token that accept() will take, from the logits of the last known token. Safe to
    /// run at the same time as that of other sequences. `form_work`: automaton positions that the
    /// answer's form may look at for it. Returns: false if the form needs more than these; then the
    /// sequence keeps a copy of the logits and runs no token until a later call with the same
    /// logits returns true. An exception is kept for accept().
    bool draw_ahead(std::span<const float> logits, std::int64_t form_work);
    /// Whether draw_ahead() has returned false: the form has not decided which token may come next.
    bool waits_for_form() const { return !kept_logits_.empty(); }
    /// The logits that draw_ahead() has kept; empty if none. Valid until accept().
    std::span<const float> kept_logits() const { return kept_logits_; }
    bool has_form() const { return constraint_.has_value(); }
    /// Appends the token that draw_ahead() has drawn from the same logits; draws it first if it is
    /// not drawn yet. Throws: what drawing it threw.
    accepted accept(std::span<const float> logits);
    token_id last_token() const { return last_token_; }
    int output_tokens() const { return output_tokens_; }
    const std::string& stop_sequence() const { return stop_sequence_; }
    /// Upper bound of the sequence's tokens at the end of its answer.
    int tokens_most() const;

    // Written and read by the batch only.
    std::chrono::steady_clock::time_point last_token_at;  // for the time between tokens
    int published = 0;            // tokens of the memory that was published last
    std::uint64_t looked_at = 0;  // delivery::publications() at its last search for a memory
    bool returns = false;         // it was preempted, and its memory is being read from disk
    /// All known tokens: those of the prompt, and the drawn ones that belong to the text.
    std::span<const token_id> tokens() const { return tokens_; }
    /// Releases all blocks: the sequence starts again at position 0, with all known tokens as its
    /// prompt.
    void give_back_blocks();
    /// Replaces the sequence's blocks by those of `prefix`, which has the same tokens, and
    /// continues after them. `kept`: the recurrent states of the memory that `prefix` comes from.
    void go_on_from(storage::restored_prefix prefix, const std::vector<storage::kept_state>& kept);

    /// Returns: the memory of all tokens whose KV exists now. It shares the sequence's blocks.
    /// `goes_on`: a longer version of the memory follows in this turn.
    storage::agent_state snapshot(bool goes_on = false);
    /// As snapshot(), for a sequence that is preempted and will continue from this memory: its
    /// recurrent state is written to disk now.
    storage::agent_state snapshot_to_return();
    /// As snapshot(), for a complete answer: the memory also says where the answer ends.
    storage::agent_state snapshot_at_end();
    /// As snapshot(), without a partly filled last block, which the sequence does not share.
    storage::agent_state snapshot_of_whole_blocks();

  private:
    void go_on_from(std::vector<storage::kv_block_parts> blocks, int tokens);
    /// The memory of the first `tokens` tokens, with `blocks` and without recurrent states.
    storage::agent_state snapshot(std::vector<storage::kv_block_parts> blocks, int tokens) const;
    /// The positions of the prompt at which recurrent states are kept.
    std::vector<planned_place> plan_own_places() const;
    /// The sequence's drafts; makes the index for them at the first call.
    drafting& open_drafting();
    /// After a step with a draft: sets the recurrent state to that after the tokens that were
    /// taken.
    void settle_states();
    storage::message_end end_of_answer(const storage::agent_state& memory) const;
    /// Adds an answer that was cut off to the memory's list of turns that the model wrote.
    void note_cut_turn(const storage::message_end& end, storage::agent_state& memory) const;
    /// If the budget for reasoning is spent and the model still reasons, forces the tokens that end
    /// the reasoning to come next.
    void end_thinking();
    /// Draws the next token into open_draw_, one that the form allows. Throws: grammar_unfinished
    /// if the form's share of work is spent; a later call with the same logits continues.
    void draw(std::span<const float> logits);
    /// The first draw: a forced token if there is one, otherwise by the model's distribution.
    token_id draw_first(std::span<const float> logits);
    /// The second draw, after the form has refused the first: only from tokens that it allows.
    token_id draw_allowed(std::span<const float> logits);
    token_id draw_freely(std::span<const float> logits);
    /// Returns: `logits`, with -infinity for tokens that would end the answer if it may not end
    /// yet; valid until the next call.
    std::span<const float> without_ends(std::span<const float> logits);
    /// Appends a token to the sequence and its text to `shown`, unless it is a stop token. Returns:
    /// why the answer ends with it, if it does.
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
    std::vector<token_id> tokens_;  // the prompt's, then the drawn ones that belong to the text
    std::vector<std::uint32_t> token_ends_;  // of each token, where its bytes end in text_
    std::string text_;
    int prompt_tokens_ = 0;
    int output_tokens_ = 0;    // so far, a stop token included
    bool ended_turn_ = false;  // the model ended its turn with a stop token of its own
    token_id last_token_ = 0;  // of the output, likewise
    sampler sampler_;
    const std::vector<token_id> stop_tokens_;      // the model's and the request's, sorted
    std::vector<float> open_logits_;               // scratch of without_ends()
    std::optional<output_constraint> constraint_;  // none: any token may be drawn
    utf8_stream utf8_;              // the bytes of a character whose last ones are still to come
    stop_matcher stops_;            // text that may be the start of a stop sequence
    std::string stop_sequence_;     // the one that ended the answer; empty: none
    std::vector<token_id> forced_;  // tokens that come next without being drawn, in reverse order
    /// How far the draw of the next token has come: the form may need several steps to decide.
    struct open_draw {
        bool is_begun = false;          // end_thinking() was called
        std::optional<token_id> token;  // the token drawn so far
        bool is_refused = false;        // the form refuses the first draw
        bool is_allowed = false;        // the form allows `token`
        bool is_taken = false;          // the constraint has read `token`
        std::optional<token_scores> scores;
        std::exception_ptr failure;  // why no token could be drawn
    };
    open_draw open_draw_;
    std::optional<drafting> drafting_;  // while the sequence runs
    draft_usage drafted_before_;        // of drafts before the sequence gave its blocks back
    /// A step with a draft, until it is known how many of the draft's tokens are taken.
    struct open_step {
        int first = 0;  // position of its first token
        int count = 0;  // its tokens, the draft's included
        std::function<void(int)> rewind;
    };
    std::optional<open_step> open_step_;  // only for models with recurrent states
    std::vector<float> kept_logits_;      // see kept_logits()
};

}  // namespace semantic::engine
