#include "engine/prompt/prompt_tokens.hpp"

#include <algorithm>

#include "engine/prompt/prompt_notes.hpp"
#include "engine/text/template/template_families.hpp"

namespace semantic::engine {

namespace {

/// How many of the prompt's tokens are known to be those of its text. `known`: those taken from
/// `source`.
std::size_t count_canonical(const prompt_source& source, std::size_t known,
                            const resolved_prompt& prompt) {
    if (known == 0 || !source.as_sampled) return prompt.tokens.size();
    const std::size_t canonical = canonical_tokens(*source.state);
    // Where a memory is parted from, the cut is a safe one.
    if (source.match.kind == match_kind::diverge && known <= canonical) return prompt.tokens.size();
    return std::min(known, canonical);
}

/// How much of the prompt's text the source has said: what a limit cut off of its last answer, too.
std::size_t shared_bytes(const prompt_source& source, std::string_view text) {
    if (!source.as_sampled) return source.match.bytes;
    const std::size_t shared = source.match.common_bytes;
    const storage::agent_state& state = *source.state;
    if (shared < state.text.size()) return shared;
    const auto last = last_answer(state);
    const bool goes_on = last && last->tokens == state.tokens.size() &&
                         text.substr(state.text.size()).starts_with(last->rest);
    return goes_on ? std::max(shared, state.text.size() + last->rest.size()) : shared;
}

}  // namespace

void tokenise(const tokenizer& words, const prompt_source& source, resolved_prompt& prompt) {
    const std::size_t reuse = source.match.tokens;
    // An exact match knows the token, too, that runs again.
    const bool knows_last = source.as_sampled && source.match.kind == match_kind::exact;
    const std::size_t known = knows_last ? reuse + 1 : reuse;
    if (source.prompt && !source.as_sampled) {
        prompt.tokens = source.prompt->tokens;
        prompt.token_ends = source.prompt->token_ends;
    } else {
        std::size_t at = 0;
        if (known > 0) {
            const storage::agent_state& state = *source.state;
            auto count = static_cast<std::ptrdiff_t>(known);
            prompt.tokens.assign(state.tokens.begin(), state.tokens.begin() + count);
            prompt.token_ends.assign(state.token_ends.begin(), state.token_ends.begin() + count);
            at = prompt.token_ends.back();
        }
        std::vector<std::uint32_t> ends;
        std::vector<token_id> rest =
            words.encode(std::string_view(prompt.text).substr(at), ends,
                         ranges_within(prompt.content, at, prompt.text.size()));
        prompt.tokens.insert(prompt.tokens.end(), rest.begin(), rest.end());
        for (std::uint32_t end : ends)
            prompt.token_ends.push_back(static_cast<std::uint32_t>(at) + end);
    }
    prompt.reuse_tokens = static_cast<int>(reuse);
    if (reuse > 0) {
        prompt.source = source.state;
        prompt.private_salt = source.state->private_salt;
    }
    prompt.match = source.match.kind;
    prompt.notes[canonical_note] = std::to_string(count_canonical(source, known, prompt));
}

void mark_turns(const chat_template& chat, const prompt_source& source, prompt_end end,
                resolved_prompt& prompt) {
    const std::string_view text = prompt.text;
    std::optional<std::size_t> turn;
    const bool is_asked = end != prompt_end::messages && end != prompt_end::inside_message;
    if (is_asked) turn = find_turn(text, prompt.content, chat.turn_begin());
    prompt.turn_begin = turn.value_or(text.size());
    prompt.begun_bytes = 0;
    if (turn && end == prompt_end::inside_answer)
        prompt.begun_bytes = text.size() - *turn - chat.turn_begin().size();
    if (!source.state) return;
    prompt.turns = turns_in(*source.state, shared_bytes(source, text));
    // An answer that goes on is the turn that is asked for.
    std::erase_if(prompt.turns,
                  [&](const sampled_turn& one) { return one.begin >= prompt.turn_begin; });
}

storage::result<void> check_tokens(const tokenizer& words, int vocabulary,
                                   const resolved_prompt& prompt) {
    if (prompt.tokens.empty())
        return storage::failure{storage::errc::bad_value, "the prompt has no tokens"};
    auto foreign =
        std::ranges::find_if(prompt.tokens, [&](token_id id) { return id >= vocabulary; });
    if (foreign == prompt.tokens.end()) return {};
    std::string what = "the prompt contains ";
    what.append(words.bytes(*foreign)).append(", a token that this model has no meaning for");
    return storage::failure{storage::errc::bad_value, std::move(what)};
}

}  // namespace semantic::engine
