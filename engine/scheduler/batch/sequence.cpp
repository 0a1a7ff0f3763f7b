// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler/batch/sequence.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <utility>

#include "engine/prompt/prompt_notes.hpp"
#include "engine/prompt/prompt_tokens.hpp"
#include "engine/text/output/output_parser.hpp"
#include "engine/text/tokenizer/utf8.hpp"

namespace semantic::engine {

namespace {

std::vector<token_id> stop_tokens_of(const answer_rules& rules, const ending_params& wanted) {
    std::vector<token_id> all = rules.stop_tokens;
    all.insert(all.end(), wanted.stop_tokens.begin(), wanted.stop_tokens.end());
    std::ranges::sort(all);
    return all;
}

/// The recurrent states of the memory that a request continues.
const std::vector<storage::kept_state>& kept_in(const job& work) {
    static const std::vector<storage::kept_state> none;
    return work.prompt->source == nullptr ? none : work.prompt->source->states;
}

}  // namespace

sequence::sequence(job_ptr work, int choice, std::vector<storage::kv_block_parts> blocks, int known,
                   storage::block_pool& pool, const tokenizer& words, const answer_rules& rules,
                   std::uint64_t seed, storage::recurrent_ptr state)
    : work_(std::move(work)),
      choice_(choice),
      seed_(work_->request.sampling.seed.value_or(seed)),
      tokenizer_(words),
      rules_(rules),
      pool_(pool),
      block_tokens_(pool.layout().block_tokens()),
      cache_(pool, std::move(blocks), known),
      states_(pool, std::move(state), known, kept_in(*work_), plan_own_places(), rules.places),
      tokens_(work_->prompt->tokens),
      token_ends_(work_->prompt->token_ends),
      text_(work_->prompt->text),
      prompt_tokens_(static_cast<int>(tokens_.size())),
      sampler_(work_->request.sampling.or_else(rules.sampling), seed_of_choice(seed_, choice),
               words.vocabulary(), tokens_),
      stop_tokens_(stop_tokens_of(rules, work_->request.ending)),
      stops_(work_->request.stop_sequences) {
    if (work_->form.program)
        constraint_.emplace(work_->form.program, tokenizer_, *work_->form.vocabulary, stop_tokens_,
                            rules.kept_form_bytes);
}

/// None for choices other than 0, whose memory is not kept.
std::vector<planned_place> sequence::plan_own_places() const {
    if (!pool_.layout().has_states() || choice_ != 0) return {};
    const prompt_places places = find_places(work_->request.chat, *work_->prompt, tokenizer_);
    return plan_places(places, cache_.token_count(), static_cast<int>(work_->prompt->tokens.size()),
                       rules_.places);
}

storage::result<void> sequence::reserve(int tokens) {
    if (auto ok = cache_.reserve(tokens); !ok) return ok;
    return states_.reserve();
}

bool sequence::drop_shared_tail() {
    if (!pool_.layout().has_states()) return cache_.drop_shared_tail();
    // No recurrent state was kept at the block's start: everything is computed again.
    if (!cache_.has_shared_tail()) return false;
    give_back_blocks();
    return true;
}

sequence_view sequence::view() const {
    int position = cache_.token_count();
    sequence_view seen{work_->id, position, static_cast<int>(tokens_.size()) - position,
                       prompt_done()};
    seen.next_place = states_.next_place(position);
    seen.tenant = work_->request.tenant;
    return seen;
}

drafting& sequence::open_drafting() {
    if (drafting_) return *drafting_;
    std::unique_ptr<form_drafts> form;
    if (work_->form.program)
        form = std::make_unique<form_drafts>(work_->form.program, tokenizer_,
                                             work_->prompt->tokens.size());
    return drafting_.emplace(static_cast<std::size_t>(tokens_most()), std::move(form));
}

void sequence::prepare_drafts() {
    // Such a request has only its prompt read: no token follows that a draft could guess.
    if (work_->request.max_tokens == 0) return;
    open_drafting().catch_up(tokens_);
}

draft_view sequence::look_for_draft() {
    const auto most = static_cast<std::size_t>(tokens_most());
    // No more tokens than the answer may still have. With a wide tail (f16 rows of the latest
    // tokens, in groups) a step may reach no further than into the next group.
    int count = std::min(draft_tokens_most, static_cast<int>(most - tokens_.size()));
    const int group = pool_.layout().recipe().wide_tail;
    if (group > 0) count = std::min(count, group - 1);
    return open_drafting().look(tokens_, count);
}

void sequence::begin_draft(int count) { drafting_->begin(tokens_.back(), count); }

bool sequence::take_drafted() {
    if (!drafting_ || !drafting_->take(last_token_)) return false;
    cache_.advance(cache_.token_count() + 1);
    return true;
}

void sequence::step_has_run(int drafts, std::function<void(int count)> rewind) {
    // Only recurrent states are settled. Of KV, cache_ does not count the refused drafts' rows.
    if (!pool_.layout().has_states() || drafts == 0) return step_has_run();
    const int first = cache_.token_count() - 1;  // a draft follows one known token
    open_step_ = {first, 1 + drafts, std::move(rewind)};
}

void sequence::settle_states() {
    const auto step = std::exchange(open_step_, std::nullopt);
    if (!step) return;
    const int kept = cache_.token_count() - step->first;
    if (kept < step->count) step->rewind(kept);
    states_.advance(cache_.token_count());
}

drafting::outcome sequence::end_draft() {
    settle_states();
    return drafting_ ? drafting_->end() : drafting::outcome();
}

draft_usage sequence::drafted() const {
    draft_usage all = drafted_before_;
    if (drafting_) all.add(drafting_->usage());
    return all;
}

std::span<const token_id> sequence::next_tokens(int count) const {
    if (drafting_ && !drafting_->running().empty())
        return drafting_->running().first(static_cast<std::size_t>(count));
    return std::span(tokens_).subspan(static_cast<std::size_t>(cache_.token_count()),
                                      static_cast<std::size_t>(count));
}

bool sequence::reaches_end(int count) const {
    return cache_.token_count() + count == static_cast<int>(tokens_.size());
}

bool sequence::draw_ahead(std::span<const float> logits, std::int64_t form_work) {
    // Nothing to draw: accept() ends the request without a token.
    if (work_->request.max_tokens == 0) return true;
    try {
        if (constraint_) constraint_->begin_slice(form_work);
        draw(logits);
        if (work_->request.top_scores) open_draw_.scores = scores_of(logits, *open_draw_.token);
    } catch (const grammar_unfinished&) {
        // In a later call `logits` is kept_logits_ itself.
        if (kept_logits_.empty()) kept_logits_.assign(logits.begin(), logits.end());
        return false;
    } catch (const std::exception&) {
        open_draw_.failure = std::current_exception();
    }
    return true;
}

sequence::accepted sequence::accept(std::span<const float> logits) {
    accepted out;
    if (work_->request.max_tokens == 0) {
        out.ended = stop_reason::max_tokens;
        return out;
    }
    const bool is_drawn = constraint_ ? open_draw_.is_taken : open_draw_.token.has_value();
    if (!is_drawn && !open_draw_.failure) draw_ahead(logits, grammar_matcher::no_slice);
    open_draw drawn = std::exchange(open_draw_, {});
    if (drawn.failure) std::rethrow_exception(drawn.failure);
    const token_id token = drawn.token.value();
    ++output_tokens_;
    last_token_ = token;
    sampler_.take(token);
    const std::size_t known = tokens_.size();
    out.ended = take(token, out.text);
    const bool is_stop_token = tokens_.size() == known;
    if (!is_stop_token) out.scores = std::move(drawn.scores);
    if (out.ended && stop_sequence_.empty()) {
        // The end flushes what was held back. After a stop token that includes an incomplete
        // character; where a limit cut the answer, an incomplete character is left out.
        if (is_stop_token) {
            stop_matcher::output rest = stops_.push(utf8_.finish());
            out.text += rest.text;
        }
        out.text += stops_.finish();
    }
    kept_logits_ = {};  // last: `logits` may refer to them
    return out;
}

// Draws by the model's distribution. If the form's mask for this state is known (the model was
// refused here before), draws from the allowed tokens at once, because a refusal is likely.
token_id sequence::draw_freely(std::span<const float> logits) {
    const std::span<const float> open = without_ends(logits);
    if (constraint_ && constraint_->knows_mask())
        if (auto allowed = constraint_->masked(open); !allowed.empty())
            return sampler_.sample(allowed, tokens_.size());
    return sampler_.sample(open, tokens_.size());
}

std::span<const float> sequence::without_ends(std::span<const float> logits) {
    const ending_params& wanted = work_->request.ending;
    const bool none_ends = output_tokens_ < wanted.min_tokens;
    if (!none_ends && !wanted.ignores_end) return logits;
    open_logits_.assign(logits.begin(), logits.end());
    // `ignores_end` leaves the request's own stop tokens in force.
    for (token_id token : none_ends ? stop_tokens_ : rules_.stop_tokens)
        if (auto index = static_cast<std::size_t>(token); index < open_logits_.size())
            open_logits_[index] = -std::numeric_limits<float>::infinity();
    return open_logits_;
}

// Draws freely first, and if the form refuses that token, draws again from the allowed ones.
// Together that is the model's distribution over the allowed tokens, and the mask of these, which
// is expensive, is needed only after a refusal. The form may break this off at any call, by
// grammar_unfinished: open_draw_ keeps what is decided so far, and the next call continues there.
void sequence::draw(std::span<const float> logits) {
    open_draw& open = open_draw_;
    if (!open.is_begun) end_thinking();
    open.is_begun = true;
    if (!open.token) open.token = draw_first(logits);
    if (!constraint_ || open.is_taken) return;
    if (!open.is_allowed) {
        if (!open.is_refused && !constraint_->allows(*open.token)) {
            open.is_refused = true;
            forced_.clear();
        }
        if (open.is_refused) open.token = draw_allowed(logits);
        open.is_allowed = true;
    }
    constraint_->take(*open.token);
    open.is_taken = true;
}

token_id sequence::draw_first(std::span<const float> logits) {
    if (forced_.empty()) return draw_freely(logits);
    const token_id token = forced_.back();
    forced_.pop_back();
    return token;
}

token_id sequence::draw_allowed(std::span<const float> logits) {
    constexpr std::uint64_t second_draw = std::uint64_t{1} << 63;  // a random number of its own
    auto draw_from = [&](std::span<const float> all) {
        const std::span<const float> allowed = constraint_->masked(all);
        if (allowed.empty()) throw unwritable_form();
        return sampler_.sample(allowed, tokens_.size() | second_draw);
    };
    const token_id token = draw_from(without_ends(logits));
    // If every token that does not end the answer is forbidden, the answer has to end here although
    // without_ends() says not yet.
    return constraint_->allows(token) ? token : draw_from(logits);
}

void sequence::end_thinking() {
    const generation_request& wanted = work_->request;
    if (wanted.thinking.budget_tokens != output_tokens_ || rules_.thinking_end.empty()) return;
    const bool thinks = wanted.thinking.enabled.value_or(rules_.answers.thinks_unless_said);
    auto parser = make_output_parser(rules_.answers, offered_tools(wanted.chat.callable_tools()),
                                     {.thinks = thinks});
    parser->push(std::string_view(text_).substr(work_->prompt->text.size()));
    if (!parser->is_thinking()) return;
    forced_ = tokenizer_.encode(rules_.thinking_end);
    std::reverse(forced_.begin(), forced_.end());
}

std::optional<stop_reason> sequence::take(token_id token, std::string& shown) {
    // A stop token of the model ends its turn; one of the request only ends the answer.
    if (std::binary_search(rules_.stop_tokens.begin(), rules_.stop_tokens.end(), token)) {
        ended_turn_ = true;
        return stop_reason::end_turn;
    }
    if (std::binary_search(stop_tokens_.begin(), stop_tokens_.end(), token))
        return stop_reason::stop_sequence;
    std::string_view bytes = tokenizer_.bytes(token);
    tokens_.push_back(token);
    text_ += bytes;
    token_ends_.push_back(static_cast<std::uint32_t>(text_.size()));

    stop_matcher::output out = stops_.push(utf8_.push(bytes));
    shown = std::move(out.text);
    if (out.stop) {
        stop_sequence_ = std::move(*out.stop);
        return stop_reason::stop_sequence;
    }
    if (output_tokens_ >= work_->request.max_tokens) return stop_reason::max_tokens;
    if (static_cast<int>(tokens_.size()) >= rules_.context_tokens_max)
        return stop_reason::context_full;
    return std::nullopt;
}

int sequence::tokens_most() const {
    const auto known = static_cast<std::int64_t>(tokens_.size());
    const std::int64_t left = std::max(0, work_->request.max_tokens - output_tokens_);
    const std::int64_t room = std::max<std::int64_t>(known, rules_.context_tokens_max);
    return static_cast<int>(std::min(known + left, room));
}

// Requires: the request asked for scores (top_scores).
token_scores sequence::scores_of(std::span<const float> logits, token_id token) const {
    token_scores scores = score_tokens(logits, token, *work_->request.top_scores);
    auto spell = [this](scored_token& one) {
        one.bytes = tokenizer_.bytes(one.token);
        utf8::append_lossy(one.text, one.bytes);
    };
    spell(scores.chosen);
    for (scored_token& one : scores.top) spell(one);
    return scores;
}

void sequence::give_back_blocks() {
    open_step_.reset();
    // A preempted sequence keeps no index for drafts: it is made again from the tokens.
    drafted_before_ = drafted();
    drafting_.reset();
    go_on_from({}, 0);
    states_.reset();
    // 0: the next search runs even if nothing was published since the last.
    looked_at = 0;
}

// Kept logits are dropped: the last token runs again and gives the same ones.
void sequence::go_on_from(std::vector<storage::kv_block_parts> blocks, int tokens) {
    kept_logits_ = {};
    cache_ = storage::kv_sequence(pool_, std::move(blocks), tokens);
}

void sequence::go_on_from(storage::restored_prefix prefix,
                          const std::vector<storage::kept_state>& kept) {
    go_on_from(std::move(prefix.blocks), prefix.tokens);
    states_.go_on_from(std::move(prefix.state), prefix.tokens, kept);
}

storage::agent_state sequence::snapshot(bool goes_on) {
    settle_states();
    const int tokens = cache_.token_count();
    storage::agent_state state = snapshot(cache_.share(), tokens);
    state.states = states_.publish(tokens, true, goes_on);
    return state;
}

storage::agent_state sequence::snapshot_to_return() {
    settle_states();
    states_.write_early(cache_.token_count());
    return snapshot(true);
}

storage::agent_state sequence::snapshot_at_end() {
    storage::agent_state state = snapshot();
    state.notes.erase(open_message_note);
    if (work_->prompt->ends_in_message) {
        state.notes[open_message_note] = std::to_string(state.tokens.size());
        return state;
    }
    storage::message_end end = end_of_answer(state);
    // The answer cannot be noted: a manifest takes no longer rest.
    if (end.rest.size() > storage::message_rest_bytes_max) return state;
    state.notes[last_answer_note] =
        encode_answer({work_->prompt->answer_begin(), end.tokens, end.rest});
    if (!ended_turn_) note_cut_turn(end, state);
    const std::optional<std::string>& id = work_->request.message_id;
    if (!id || !storage::agent_id::parse(*id)) return state;
    end.id = *id;
    // When the list of answers is full its older half goes: dropping one an answer would rewrite
    // the manifest each time.
    if (state.messages.size() == storage::messages_max)
        state.messages.erase(state.messages.begin(),
                             state.messages.begin() + storage::messages_max / 2);
    // A stop string may end this answer before the noted end of an earlier one that was cut off.
    while (!state.messages.empty() && state.messages.back().tokens > end.tokens)
        state.messages.pop_back();
    state.messages.push_back(std::move(end));
    return state;
}

// The turn may be longer than the memory, which lacks the last token before a limit: that token has
// not run.
void sequence::note_cut_turn(const storage::message_end& end, storage::agent_state& memory) const {
    const std::size_t begin = end.tokens == 0 ? 0 : memory.token_ends[end.tokens - 1];
    const std::size_t turn_end = begin + end.rest.size();
    if (turn_end <= work_->prompt->answer_begin()) return;
    std::vector<sampled_turn> turns = turns_in(memory, memory.text.size());
    turns.push_back({static_cast<std::uint32_t>(work_->prompt->turn_begin),
                     static_cast<std::uint32_t>(turn_end)});
    memory.notes[turns_note] = encode_turns(turns);
}

// Where the answer ends, as the client saw it: before a stop string, and without an incomplete
// character. Given as whole tokens of the memory and the bytes after them (`rest`).
storage::message_end sequence::end_of_answer(const storage::agent_state& memory) const {
    std::size_t end = text_.size() - utf8_.pending_bytes();
    if (!stop_sequence_.empty())
        end = std::min(end, text_.find(stop_sequence_, work_->prompt->text.size()));
    auto next = std::ranges::upper_bound(memory.token_ends, end);
    auto count = static_cast<std::size_t>(next - memory.token_ends.begin());
    std::size_t begin = count == 0 ? 0 : memory.token_ends[count - 1];
    return {{}, static_cast<std::uint32_t>(count), text_.substr(begin, end - begin)};
}

storage::agent_state sequence::snapshot_of_whole_blocks() {
    settle_states();
    std::vector<storage::kv_block_parts> blocks = cache_.share_whole_blocks();
    int tokens = static_cast<int>(blocks.size()) * block_tokens_;
    storage::agent_state state = snapshot(std::move(blocks), tokens);
    state.states = states_.publish(tokens, tokens == cache_.token_count(), true);
    return state;
}

storage::agent_state sequence::snapshot(std::vector<storage::kv_block_parts> blocks,
                                        int tokens) const {
    auto now = std::chrono::system_clock::now();
    auto count = static_cast<std::size_t>(tokens);
    storage::agent_state state{.id = work_->prompt->agent};
    state.tokens.assign(tokens_.begin(), tokens_.begin() + static_cast<std::ptrdiff_t>(count));
    state.token_ends.assign(token_ends_.begin(),
                            token_ends_.begin() + static_cast<std::ptrdiff_t>(count));
    state.text = text_.substr(0, count == 0 ? 0 : token_ends_[count - 1]);
    state.blocks = std::move(blocks);
    state.created = now;
    state.last_used = now;
    state.notes = work_->prompt->notes;
    // It said that the memory that was continued ends within its prompt.
    state.notes.erase(partly_read_note);
    if (count > 0 && count < work_->prompt->tokens.size())
        state.notes[partly_read_note] = std::to_string(count);
    state.private_salt = work_->prompt->private_salt;
    if (!work_->drops_memory())
        state.policy = {work_->request.memory.keep_seconds, work_->request.memory.pinned};
    std::vector<sampled_turn> turns = work_->prompt->turns;
    if (ended_turn_)
        turns.push_back({static_cast<std::uint32_t>(work_->prompt->turn_begin),
                         static_cast<std::uint32_t>(text_.size())});
    std::erase_if(turns, [&](const sampled_turn& turn) { return turn.end > state.text.size(); });
    if (!turns.empty()) state.notes[turns_note] = encode_turns(turns);
    for (const storage::message_end& each : work_->prompt->messages)
        if (each.tokens <= count) state.messages.push_back(each);
    return state;
}

}  // namespace semantic::engine
