// SPDX-License-Identifier: Apache-2.0
#include "engine/prompt/source_search.hpp"

#include <random>
#include <utility>

#include "engine/prompt/prompt_notes.hpp"
#include "storage/types/hex.hpp"

namespace semantic::engine {

namespace {

// So many agents' memories are matched with a prompt, those with most text in common first. More
// than one, because a memory with less text in common may have a later safe cut.
constexpr std::size_t neighbours_max = 32;

// The prompt's bytes that need not be computed again: all of the match, or, for memories with
// recurrent states, those up to the last state within the match.
std::size_t usable_bytes(const prompt_source& source) {
    if (!source.state || source.state->states.empty()) return source.match.bytes;
    const auto& states = source.state->states;
    const std::size_t count = storage::count_kept_within(states, source.match.tokens);
    return count == 0 ? 0 : source.state->token_ends[states[count - 1].tokens - 1];
}

// Whether a memory that has only `common_bytes` in common with the prompt cannot be better than
// `best`.
bool is_settled(const prompt_source& best, std::size_t common_bytes) {
    // With equal bytes only a memory that the prompt has all of would be better.
    const std::size_t usable = usable_bytes(best);
    return common_bytes < usable || (common_bytes == usable && is_whole(best.match.kind));
}

// Replaces `best` by `found` if that has more usable bytes; with equally many, if it has the longer
// match, or the prompt has all of it.
void keep_better(prompt_source& best, prompt_source found) {
    const std::size_t now = usable_bytes(best), then = usable_bytes(found);
    if (then > now ||
        (then == now && (found.match.bytes > best.match.bytes ||
                         (found.match.bytes == best.match.bytes && is_whole(found.match.kind)))))
        best = std::move(found);
}

stored_prefix prefix_of(const storage::agent_state& state) {
    return {state.text, state.tokens, state.token_ends};
}

}  // namespace

storage::agent_id new_anonymous_id() {
    thread_local std::random_device entropy;
    std::uint64_t value = (static_cast<std::uint64_t>(entropy()) << 32) | entropy();
    // The prefix and hexadecimal digits are always a valid id.
    return *storage::agent_id::parse(std::string(anonymous_prefix) + storage::hex_of(value));
}

bool is_anonymous(const storage::agent_id& id) { return id.str().starts_with(anonymous_prefix); }

boundary_rules searched_prompt::rules() {
    return {[this](std::size_t at) { return is_safe(at); },
            [this](token_id id) { return words_.is_special(id); },
            [this](std::size_t at) { return spells_rest_of_character(at); },
            [this](token_id id, std::string_view text) { return words_.is_control(id, text); }};
}

prompt_view searched_prompt::view() {
    if (!control_) control_ = words_.control_tokens(text_, prompt_.content());
    return {text_, *control_};
}

bool searched_prompt::is_safe(std::size_t at) {
    auto [known, is_new] = safe_.try_emplace(at, false);
    if (is_new)
        known->second =
            words_.is_safe_boundary(text_.substr(0, at), text_.substr(at), prompt_.content());
    return known->second;
}

// Tokenises the rest of the character and compares: without byte tokens in the vocabulary the
// result has the unknown token, which has no text.
bool searched_prompt::spells_rest_of_character(std::size_t at) const {
    std::size_t end = at;
    // A character has at most 3 bytes after its first.
    while (end - at < 3 && is_inside_character(text_, end)) ++end;
    const std::string_view rest = text_.substr(at, end - at);
    std::string spelled;
    for (const token_id id : words_.encode(rest)) spelled += words_.bytes(id);
    return spelled == rest;
}

const std::shared_ptr<const tokenised_text>& searched_prompt::tokens() {
    if (!tokens_) {
        tokenised_text made;
        made.tokens = words_.encode(text_, made.token_ends, prompt_.content());
        tokens_ = std::make_shared<const tokenised_text>(std::move(made));
    }
    return tokens_;
}

std::shared_ptr<const storage::agent_state> source_search::own_memory(
    const generation_request& request) const {
    return request.agent ? store_.find(*request.agent) : nullptr;
}

std::shared_ptr<const storage::agent_state> source_search::own_or_parents_memory(
    const generation_request& request) const {
    auto own = own_memory(request);
    return own || !request.parent ? own : store_.find(*request.parent);
}

std::size_t source_search::common_with(const storage::agent_state& state, searched_prompt& prompt) {
    return common_bytes(prefix_of(state), prompt.view(), prompt.rules());
}

prompt_source source_search::match_own(std::shared_ptr<const storage::agent_state> state,
                                       searched_prompt& prompt) const {
    if (!state) return {};
    const auto match = ends_in_reading(*state) ? match_read_prefix : match_prefix;
    const prefix_match found = match(prefix_of(*state), prompt.view(), prompt.rules());
    return {std::move(state), found, true};
}

prompt_source source_search::match_others(std::shared_ptr<const storage::agent_state> state,
                                          searched_prompt& prompt) const {
    const std::size_t canonical = canonical_tokens(*state);
    const std::size_t canonical_bytes = canonical == 0 ? 0 : state->token_ends[canonical - 1];
    if (common_with(*state, prompt) <= canonical_bytes) {
        prefix_match found =
            match_canonical_prefix(prefix_of(*state), canonical, prompt.view(), prompt.rules());
        return {std::move(state), found};
    }
    const tokenised_text& tokenised = *prompt.tokens();
    prefix_match found =
        match_tokens(prefix_of(*state), {prompt.text(), tokenised.tokens, tokenised.token_ends});
    return {std::move(state), found};
}

prompt_source source_search::best(const generation_request& request,
                                  searched_prompt& prompt) const {
    prompt_source best = match_own(own_or_parents_memory(request), prompt);
    if (is_whole(best.match.kind)) return best;
    const auto own = best.state;
    for (storage::prefix_neighbour& other :
         store_.closest(request.tenant, prompt.text(), neighbours_max)) {
        if (is_settled(best, other.common_bytes)) break;
        if (other.state != own) keep_better(best, match_others(std::move(other.state), prompt));
    }
    best.prompt = prompt.known_tokens();
    return best;
}

prompt_source source_search::anonymous_conversation(const storage::tenant_id& tenant,
                                                    searched_prompt& prompt,
                                                    const busy_agents& busy) const {
    prompt_source best;
    for (storage::prefix_neighbour& other : store_.closest(tenant, prompt.text(), neighbours_max)) {
        if (is_settled(best, other.common_bytes)) break;
        if (is_anonymous(other.state->id) && !busy(other.state->id))
            keep_better(best, match_own(std::move(other.state), prompt));
    }
    return best;
}

}  // namespace semantic::engine
