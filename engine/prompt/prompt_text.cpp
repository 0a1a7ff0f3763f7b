#include "engine/prompt/prompt_text.hpp"

#include "engine/prompt/next_turn.hpp"
#include "engine/prompt/turn_replay.hpp"

namespace semantic::engine {

namespace {

// An agent's conversation up to the end of its last complete answer. An answer that was cut off by
// its client is none: what is appended then takes its place.
std::string conversation_of(const storage::agent_state& own) {
    if (own.messages.empty()) return own.text;
    const storage::message_end& last = own.messages.back();
    const std::size_t bytes = last.tokens == 0 ? 0 : own.token_ends[last.tokens - 1];
    return own.text.substr(0, bytes) + last.rest;
}

}  // namespace

storage::result<std::string> prompt_text(const chat_template& chat,
                                         const generation_request& request,
                                         const storage::agent_state* own,
                                         const render_options& options) {
    const bool is_first = !request.append || !own || own->tokens.empty();
    if (is_first) {
        if (!request.text) return chat.render(request.chat, options);
        const std::string bos = chat.bos();
        return request.text->starts_with(bos) ? *request.text : bos + *request.text;
    }
    if (request.text) return conversation_of(*own) + *request.text;
    const std::string text = conversation_of(*own);
    const std::size_t answers = own->messages.size();
    const std::uint32_t before = answers < 2 ? 0 : own->messages[answers - 2].tokens;
    const std::size_t begin = before == 0 ? 0 : own->token_ends[before - 1];
    auto tail = render_behind_answer(chat, std::string_view(text).substr(begin),
                                     request.chat.messages, options);
    if (!tail) return tail;
    return text + *tail;
}

storage::result<std::optional<std::string>> prompt_text_as_sampled(
    const chat_template& chat, const generation_request& request, const storage::agent_state& state,
    const render_options& options) {
    auto note = state.notes.find(turns_note);
    if (note == state.notes.end()) return std::optional<std::string>();
    conversation reworded = request.chat;
    auto turns = decode_turns(note->second, state.text.size());
    if (replay_turns(reworded, state.text, turns, chat) == 0) return std::optional<std::string>();
    auto text = chat.render(reworded, options);
    if (!text) return text.error();
    return std::optional(std::move(*text));
}

}  // namespace semantic::engine
