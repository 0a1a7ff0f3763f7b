// SPDX-License-Identifier: Apache-2.0
#include "engine/prompt/resolve.hpp"

#include <algorithm>

#include "engine/prompt/miss_reason.hpp"
#include "engine/prompt/prompt_notes.hpp"
#include "engine/prompt/prompt_text.hpp"
#include "engine/prompt/prompt_tokens.hpp"
#include "engine/text/placed_tools.hpp"
#include "storage/pool/session_note.hpp"

namespace semantic::engine {

namespace {

// How often a prompt is rendered again with the model's turns of the closest memory.
constexpr int replays_max = 4;

// Carries over the notes about the agent's answers that lie within the tokens which the prompt and
// the agent's memory have in common.
void keep_answers(const storage::agent_state& own, resolved_prompt& prompt) {
    auto parting = std::ranges::mismatch(own.tokens, prompt.tokens).in1;
    auto common = static_cast<std::size_t>(parting - own.tokens.begin());
    for (const storage::message_end& each : own.messages)
        if (each.tokens <= common) prompt.messages.push_back(each);
    prompt.notes.erase(last_answer_note);
    const auto last = last_answer(own);
    if (last && last->tokens <= common) prompt.notes[last_answer_note] = encode_answer(*last);
    prompt.notes.erase(open_message_note);
    const auto read = open_message(own);
    if (read && *read <= common) prompt.notes[open_message_note] = std::to_string(*read);
}

// Whether the request has only the new messages, which follow the agent's memory.
bool appends_to(const generation_request& request, const storage::agent_state* own) {
    return request.append && own && !own->tokens.empty();
}

// Whether the request has the model's earlier turns in the client's words.
bool rewords(const generation_request& request) { return !request.append && !request.text; }

}  // namespace

storage::result<void> resolver::render_as_sampled(const generation_request& request,
                                                  const render_options& options,
                                                  const storage::agent_state& state,
                                                  rendering& best) const {
    auto text = prompt_text_as_sampled(tokenizer_, template_, request, state, options);
    if (!text) return text.error();
    if (!*text || **text == best.text) return {};
    searched_prompt prompt = memories_.search_for(**text);
    prompt_source source = memories_.best(request, prompt);
    if (source.match.bytes > best.source.match.bytes) best = {std::move(**text), std::move(source)};
    return {};
}

// The prompt is the next turn if it has all of the memory; or all up to the last answer, which the
// client asks for again or has left out; or, if a later answer was broken off, all up to the end of
// the last complete one. (Clients leave out an answer that their user broke off, and maybe its
// question.) A prompt that diverges earlier is another conversation: it gets an agent of its own,
// and shares only canonical tokens.
bool resolver::is_next_turn(const prompt_source& found) const {
    if (!found.state) return false;
    if (found.match.kind == match_kind::extend) return true;
    const auto last = last_answer(*found.state);
    if (!last || last->tokens == 0) return found.match.kind == match_kind::exact;
    const std::string& text = found.state->text;
    const std::size_t end = found.state->token_ends[last->tokens - 1];
    const bool is_broken_off = text.find(template_.turn_begin(), end) != std::string::npos;
    const std::size_t begin = text.rfind(template_.turn_begin(), last->begin);
    return found.match.common_bytes >= (is_broken_off ? end : std::min(begin, last->begin));
}

// Searches, then renders again with the model's turns of the conversation that was found, and so
// on: each pass may match a turn further, where other conversations are closest.
storage::result<std::optional<resolver::rendering>> resolver::next_anonymous_turn(
    const generation_request& request, const render_options& options, searched_prompt& asked,
    const busy_agents& busy) const {
    rendering turn{asked.prompt(), {}, false, true};
    std::optional<searched_prompt> reworded;
    for (int pass = 0;; ++pass) {
        const std::size_t before = turn.source.match.bytes;
        searched_prompt& prompt = reworded ? *reworded : asked;
        turn.source = memories_.anonymous_conversation(request.tenant, prompt, busy);
        const prompt_source& found = turn.source;
        if (is_next_turn(found)) return std::optional(std::move(turn));
        if (!found.state || is_whole(found.match.kind) || found.match.bytes <= before ||
            pass == replays_max || !rewords(request))
            return std::optional<rendering>();
        auto text = prompt_text_as_sampled(tokenizer_, template_, request, *found.state, options);
        if (!text) return text.error();
        if (!*text || **text == turn.text) return std::optional<rendering>();
        turn.text = std::move(**text);
        reworded.emplace(memories_.search_for(turn.text));
    }
}

storage::result<resolver::rendering> resolver::render_and_search(
    const generation_request& request, const render_options& options, const busy_agents& busy,
    std::vector<std::string>& template_fit) const {
    auto own = memories_.own_memory(request);
    auto text = prompt_text(tokenizer_, template_, request, own.get(), options, &template_fit);
    if (!text) return text.error();
    // A text that will be refused is not searched for.
    if (bound_.excess_of(text->bytes()) > 0) return rendering{std::move(*text), {}};
    searched_prompt asked = memories_.search_for(*text);
    rendering best{*text, memories_.best(request, asked)};
    auto lineage = memories_.own_or_parents_memory(request);
    if (lineage && rewords(request) && !is_whole(best.source.match.kind))
        if (auto ok = render_as_sampled(request, options, *lineage, best); !ok) return ok.error();
    best.is_named = request.agent && !is_branch(request, best.text);
    if (best.is_named) return best;
    auto turn = next_anonymous_turn(request, options, asked, busy);
    if (!turn) return turn.error();
    const bool is_next = *turn && (*turn)->source.match.bytes >= best.source.match.bytes;
    return is_next ? std::move(**turn) : std::move(best);
}

storage::result<resolver::rendering> resolver::render(const generation_request& request,
                                                      const render_options& options,
                                                      const busy_agents& busy) const {
    std::vector<std::string> template_fit;
    auto found = render_and_search(request, options, busy, template_fit);
    if (found) found->template_fit = std::move(template_fit);
    return found;
}

// A prompt that has all of the memory up to its last answer is a turn of the conversation: the next
// one, or the last one again. Where the last answer begins is taken from the noted turns if it is
// complete: the template's mark of a turn may also occur within an answer (channels). Otherwise the
// request is a branch if it is shorter than the memory or has other tools.
bool resolver::is_branch(const generation_request& request, const marked_text& text) const {
    auto own = request.agent_may_branch ? memories_.own_memory(request) : nullptr;
    if (!own || own->tokens.empty()) return false;
    std::size_t last_answer = std::min(own->text.rfind(template_.turn_begin()), own->text.size());
    const auto turns = turns_in(*own, own->text.size());
    if (!turns.empty()) last_answer = std::min<std::size_t>(last_answer, turns.back().begin);
    searched_prompt asked = memories_.search_for(text);
    if (source_search::common_with(*own, asked) >= last_answer) return false;
    return text.size() < own->text.size() || !same_tools(*own, notes_of(request.chat));
}

storage::result<resolved_prompt> resolver::resolve(const generation_request& request,
                                                   const busy_agents& busy) const {
    // A conversation that cannot fit is not even rendered.
    const std::int64_t excess = request.text ? 0 : bound_.excess_of(request.chat);
    if (excess > 0) return refusal(request, excess);
    if (!request.chat.placed_tools.empty()) {
        // Few tools: many were written before, within the request's own budget (form_compiler). The
        // request that is resolved then has none left.
        generation_request completed = request;
        storage::work_budget budget;
        if (auto ok = write_late_tools(completed.chat, budget); !ok) return ok.error();
        return resolve(completed, busy);
    }
    if (request.continues) return threads_.resume(request, &bound_);
    const bool may_end_in_message =
        request.only_reads && !request.text && request.chat.end == prompt_end::answer_begins;
    if (!may_end_in_message) return resolve_conversation(request, busy);
    generation_request reading = request;
    reading.chat.end = prompt_end::inside_message;
    auto prompt = resolve_conversation(reading, busy);
    // Not every template can end inside a message: then the prompt ends as one for an answer.
    if (!prompt) return resolve_conversation(request, busy);
    prompt->ends_in_message = true;
    return prompt;
}

storage::result<resolved_prompt> resolver::resolve_conversation(const generation_request& request,
                                                                const busy_agents& busy) const {
    const render_options options = rendering_of(request.thinking, day_.day_for(request));
    auto found = render(request, options, busy);
    if (!found) return found.error();
    if (const std::int64_t excess = bound_.excess_of(found->text.bytes()); excess > 0)
        return refusal(request, excess);
    resolved_prompt prompt{agent_of(request, *found), found->text.bytes(), found->text.content()};
    prompt.template_fit = std::move(found->template_fit);
    tokenise(tokenizer_, found->source, prompt);
    if (auto ok = check_tokens(tokenizer_, vocabulary_, prompt); !ok) return ok.error();
    const auto own = memories_.own_memory(request);
    take_notes(request, options, own.get(), found->source, prompt);
    explain_miss(request, own.get(), found->source, prompt);
    return prompt;
}

resolved_prompt resolver::refusal(const generation_request& request, std::int64_t excess) const {
    // Nothing is stored for a refused prompt, so a new agent need not belong to the tenant.
    resolved_prompt prompt{request.agent ? *request.agent : new_anonymous_id()};
    prompt.refused = bound_.refusal(excess);
    return prompt;
}

storage::agent_id resolver::agent_of(const generation_request& request, const rendering& found) {
    if (found.is_named) return *request.agent;
    if (found.is_next_turn) return found.source.state->id;
    return new_anonymous_id().owned_by(request.tenant);
}

// Fills the notes that the agent keeps in addition to its tokens.
void resolver::take_notes(const generation_request& request, const render_options& options,
                          const storage::agent_state* own, const prompt_source& source,
                          resolved_prompt& prompt) const {
    // A request that appends has no system text and tools of its own: the agent's notes stay.
    // merge() keeps the notes of tokenise().
    prompt.notes.merge(appends_to(request, own) ? std::map(own->notes) : notes_of(request.chat));
    prompt.notes.erase(forked_note);
    if (template_.prints_day()) prompt.notes.emplace(day_note, options.date);
    mark_turns(template_, source, request.text ? prompt_end::answer_begins : request.chat.end,
               prompt);
    if (request.keeps_thread) threads_.note(request, options, prompt);
    const auto known = store_.find(prompt.agent);
    if (known) keep_answers(*known, prompt);
    note_session(request, known.get(), prompt);
}

// By this note the erasure of a session also finds the other agents that were asked in its name.
void resolver::note_session(const generation_request& request, const storage::agent_state* known,
                            resolved_prompt& prompt) const {
    std::string note = known != nullptr ? note_of(*known, storage::sessions_note) : std::string();
    if (request.agent && prompt.agent != *request.agent)
        note = storage::add_session(note, request.agent->str());
    if (!note.empty()) prompt.notes[storage::sessions_note] = note;
}

// Says why no more of the agent's memory was reused: what was lost, or where the texts diverge.
void resolver::explain_miss(const generation_request& request, const storage::agent_state* own,
                            const prompt_source& source, resolved_prompt& prompt) const {
    if (request.agent && !own) {
        prompt.why = reason_of(store_.why_absent(*request.agent));
        if (store_.is_unkept(*request.agent))
            prompt.detail =
                "its policy was to keep the memory, and the disk had no other to remove";
    }
    if (!own || own->tokens.empty() || appends_to(request, own)) return;
    const bool all = prompt.reuse_tokens + 1 == static_cast<int>(prompt.tokens.size());
    if (all || is_whole(source.match.kind)) return;
    const marked_text text(prompt.text, prompt.content);
    searched_prompt asked = memories_.search_for(text);
    const std::size_t common = source_search::common_with(*own, asked);
    // A new fork's memory may be longer than the fork (forked_note): the prompt has all of the
    // fork.
    if (const auto place = forked_at(*own); place && common >= *place) return;
    const bool shares_text = storage::common_prefix_bytes(own->text, prompt.text) > 0;
    prompt.why = prompt.reuse_tokens == 0 && shares_text ? miss_reason::too_short
                                                         : why_diverged(*own, prompt.notes);
    prompt.detail = "the prompt parts from the agent's memory at byte " + std::to_string(common) +
                    " of " + std::to_string(own->text.size());
    prompt.difference = difference_at(own->text, prompt.text, common);
}

storage::result<void> resolver::write_late_tools(conversation& chat,
                                                 storage::work_budget& budget) const {
    using storage::work_limit_exceeded;
    try {
        return write_placed_tools(chat, template_, budget);
    } catch (const work_limit_exceeded& reached) {
        const bool is_too_much = reached.exceeded() == work_limit_exceeded::limit::steps ||
                                 reached.exceeded() == work_limit_exceeded::limit::bytes;
        if (!is_too_much) throw;
        return storage::failure{
            storage::errc::bad_value,
            std::string("the tools that come late take too much: ") + reached.what()};
    }
}

storage::result<int> resolver::count_continued(const generation_request& request) const {
    if (const std::int64_t excess = bound_.excess_of(request.chat); excess > 0)
        return static_cast<int>(excess);
    if (!request.chat.placed_tools.empty()) {
        generation_request completed = request;
        storage::work_budget budget;
        if (auto ok = write_late_tools(completed.chat, budget); !ok) return ok.error();
        return count_continued(completed);
    }
    auto prompt = threads_.resume(request, &bound_);
    if (!prompt) return prompt.error();
    // text_bound::refusal() always sets `excess`.
    if (prompt->refused) return static_cast<int>(prompt->refused->excess->tokens);
    return static_cast<int>(prompt->tokens.size());
}

storage::result<int> resolver::count_tokens(const conversation& chat,
                                            const thinking_params& thinking) const {
    if (const std::int64_t excess = bound_.excess_of(chat); excess > 0)
        return static_cast<int>(excess);
    if (!chat.placed_tools.empty()) {
        conversation completed = chat;
        storage::work_budget budget;
        if (auto ok = write_late_tools(completed, budget); !ok) return ok.error();
        return count_tokens(completed, thinking);
    }
    auto rendered = template_.render_marked(chat, rendering_of(thinking, day_.today()));
    if (!rendered) return rendered.error();
    if (const std::int64_t excess = bound_.excess_of(rendered->bytes()); excess > 0)
        return static_cast<int>(excess);
    std::vector<std::uint32_t> ends;
    return static_cast<int>(tokenizer_.encode(rendered->bytes(), ends, rendered->content()).size());
}

}  // namespace semantic::engine
