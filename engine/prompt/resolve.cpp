#include "engine/prompt/resolve.hpp"

#include <algorithm>
#include <random>

#include "engine/prompt/miss_reason.hpp"
#include "engine/prompt/prompt_notes.hpp"
#include "engine/prompt/prompt_text.hpp"
#include "engine/prompt/prompt_tokens.hpp"
#include "storage/types/hex.hpp"

namespace semantic::engine {

namespace {

constexpr std::string_view anonymous_prefix = "msg_";
// How often a prompt is rendered anew with what models wrote in the closest memory.
constexpr int replays_max = 4;

storage::agent_id new_anonymous_id() {
    thread_local std::random_device entropy;
    std::uint64_t value = (static_cast<std::uint64_t>(entropy()) << 32) | entropy();
    return *storage::agent_id::parse(std::string(anonymous_prefix) + storage::hex_of(value));
}

// The agent's answers that the prompt still has in front.
std::vector<storage::message_end> messages_kept(const storage::agent_state& own,
                                                const std::vector<token_id>& tokens) {
    auto parting = std::ranges::mismatch(own.tokens, tokens).in1;
    auto common = static_cast<std::uint32_t>(parting - own.tokens.begin());
    std::vector<storage::message_end> kept;
    for (const storage::message_end& each : own.messages)
        if (each.tokens <= common) kept.push_back(each);
    return kept;
}

bool is_anonymous(const storage::agent_id& id) { return id.str().starts_with(anonymous_prefix); }

}  // namespace

/// Renders again with the turns that the model wrote in `state`, and keeps that where it continues
/// a memory further.
storage::result<void> resolver::render_as_sampled(const generation_request& request,
                                                  const render_options& options,
                                                  const storage::agent_state& state,
                                                  rendering& best) const {
    auto text = prompt_text_as_sampled(template_, request, state, options);
    if (!text) return text.error();
    if (!*text || **text == best.text) return {};
    prompt_cuts of = memories_.cuts_of(**text);
    prompt_source source = memories_.best(request, of);
    if (source.match.bytes > best.source.match.bytes) best = {std::move(**text), std::move(source)};
    return {};
}

storage::result<resolver::rendering> resolver::render(const generation_request& request,
                                                      const render_options& options) const {
    auto own = memories_.own_memory(request);
    auto text = prompt_text(template_, request, own.get(), options);
    if (!text) return text.error();
    rendering best{std::move(*text), {}};
    prompt_cuts of = memories_.cuts_of(best.text);
    best.source = memories_.best(request, of);
    if (request.append || request.text) return best;  // no turn of the model's comes back reworded
    if (own && !is_whole(best.source.match.kind))
        if (auto ok = render_as_sampled(request, options, *own, best); !ok) return ok.error();
    // Each pass may get past a turn where the closest memories part, and so find others.
    for (int pass = 0; pass < replays_max; ++pass) {
        auto source = best.source.state;
        if (!source || is_whole(best.source.match.kind)) break;
        std::size_t before = best.source.match.bytes;
        if (auto ok = render_as_sampled(request, options, *source, best); !ok) return ok.error();
        if (best.source.match.bytes == before) break;
    }
    return best;
}

// A prompt that has all up to the last answer is a turn: the next one, or the last one again.
// Where that answer begins, its note says if it was complete; families with channels begin inside
// of an answer anew.
bool resolver::is_branch(const generation_request& request, std::string_view text) const {
    auto own = request.agent_may_branch ? memories_.own_memory(request) : nullptr;
    if (!own || own->tokens.empty()) return false;
    std::size_t last_answer = std::min(own->text.rfind(template_.turn_begin()), own->text.size());
    const auto turns = turns_in(*own, own->text.size());
    if (!turns.empty()) last_answer = std::min<std::size_t>(last_answer, turns.back().begin);
    if (storage::common_prefix_bytes(own->text, text) >= last_answer) return false;
    return text.size() < own->text.size() || !same_tools(*own, notes_of(request.chat));
}

storage::result<resolved_prompt> resolver::resolve(
    const generation_request& request,
    const std::function<bool(const storage::agent_id&)>& busy) const {
    if (request.continues) return threads_.resume(request);
    const render_options options = rendering_of(request.thinking, day_.of(request));
    auto rendered = render(request, options);
    if (!rendered) return rendered.error();
    const prompt_source& source = rendered->source;
    const bool is_named = request.agent && !is_branch(request, rendered->text);
    bool continues = !is_named && source.state && is_whole(source.match.kind) &&
                     is_anonymous(source.state->id) && !busy(source.state->id);
    resolved_prompt prompt{is_named    ? *request.agent
                           : continues ? source.state->id
                                       : new_anonymous_id().of(request.tenant),
                           std::move(rendered->text)};
    auto own = memories_.own_memory(request);
    const bool appended = request.append && own && !own->tokens.empty();
    prompt.notes = appended ? own->notes : notes_of(request.chat);
    if (template_.prints_day()) prompt.notes.emplace(day_note, options.date);
    tokenise(tokenizer_, source, prompt);
    if (auto ok = check_tokens(tokenizer_, vocabulary_, prompt); !ok) return ok.error();
    if (request.keeps_thread) threads_.note(request, options, prompt);
    mark_turns(template_, source, prompt);
    if (auto known = store_.find(prompt.agent))
        prompt.messages = messages_kept(*known, prompt.tokens);
    // What is appended changes nothing that was said.
    if (own && !own->tokens.empty() && !appended && !is_whole(source.match.kind)) {
        prompt_cuts again = memories_.cuts_of(prompt.text);
        prompt_source mine = memories_.match(own, again);
        prompt.why = prompt.reuse_tokens == 0 && mine.match.common_bytes > 0
                         ? miss_reason::too_short
                         : why_diverged(*own, prompt.notes);
        prompt.detail = "the prompt parts from the agent's memory at byte " +
                        std::to_string(mine.match.common_bytes) + " of " +
                        std::to_string(own->text.size());
    }
    if (request.agent && !own) prompt.why = reason_of(store_.why_absent(*request.agent));
    return prompt;
}

storage::result<int> resolver::count_continued(const generation_request& request) const {
    auto prompt = threads_.resume(request);
    if (!prompt) return prompt.error();
    return static_cast<int>(prompt->tokens.size());
}

storage::result<int> resolver::count_tokens(const conversation& chat,
                                            const thinking_params& thinking) const {
    auto rendered = template_.render(chat, rendering_of(thinking, day_.today()));
    if (!rendered) return rendered.error();
    return static_cast<int>(tokenizer_.encode(*rendered).size());
}

}  // namespace semantic::engine
