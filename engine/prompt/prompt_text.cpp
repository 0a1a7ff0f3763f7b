// SPDX-License-Identifier: Apache-2.0
#include "engine/prompt/prompt_text.hpp"

#include "engine/prompt/next_turn.hpp"
#include "engine/prompt/prompt_notes.hpp"
#include "engine/prompt/turn_replay.hpp"

namespace semantic::engine {

marked_text remembered_text(const tokenizer& words, const storage::agent_state& state,
                            std::size_t tokens) {
    const std::string_view whole = state.text;
    marked_text text;
    std::size_t from = 0, begin = 0;  // bytes where the pending content and the token begin
    for (std::size_t i = 0; i < tokens; ++i) {
        const std::size_t end = state.token_ends[i];
        const std::string_view token = whole.substr(begin, end - begin);
        if (words.is_control(state.tokens[i], token)) {
            text.fill_in(whole.substr(from, begin - from)).write(token);
            from = end;
        }
        begin = end;
    }
    text.fill_in(whole.substr(from, begin - from));
    return text;
}

namespace {

/// The text of a memory, and after its last token the rest of its last answer: if a limit cut the
/// answer, its last token is not in the memory.
marked_text said_in(const tokenizer& words, const storage::agent_state& state) {
    marked_text text = remembered_text(words, state, state.tokens.size());
    const auto last = last_answer(state);
    if (last && last->tokens == state.tokens.size()) text.fill_in(last->rest);
    return text;
}

}  // namespace

// One of three texts: the whole conversation, rendered; the memory up to its last message, which
// has no answer yet, and what continues that message; or the memory up to its last complete answer,
// and what is appended after it.
storage::result<marked_text> prompt_text(const tokenizer& words, const chat_template& chat,
                                         const generation_request& request,
                                         const storage::agent_state* own,
                                         const render_options& options,
                                         std::vector<std::string>* changes) {
    const bool renders_whole = !request.append || !own || own->tokens.empty();
    if (renders_whole) {
        if (!request.text) return chat.render_marked(request.chat, options, changes);
        // A raw prompt gets the BOS token if it lacks it; `false`: none of it is content.
        const std::string bos = chat.bos();
        return marked_text(request.text->starts_with(bos) ? *request.text : bos + *request.text,
                           false);
    }
    if (const auto read = open_message(*own)) {
        marked_text text = remembered_text(words, *own, *read);
        if (request.text) {
            text.write(*request.text);
            return text;
        }
        auto tail = render_after_message(chat, request.chat, options, changes);
        if (!tail) return tail;
        text.append(*tail);
        return text;
    }
    // An answer that its client broke off is not part of the conversation: the appended messages
    // replace it. If the agent has no answer at all, they follow everything that it remembers.
    const ended_answer last = last_answer(*own).value_or(ended_answer{0, own->tokens.size()});
    marked_text text = remembered_text(words, *own, last.tokens);
    text.write(last.rest);
    if (request.text) {
        text.write(*request.text);
        return text;
    }
    auto tail = render_after_answer(chat, std::string_view(text.bytes()).substr(last.begin),
                                    request.chat, options, changes);
    if (!tail) return tail;
    text.append(*tail);
    return text;
}

storage::result<std::optional<marked_text>> prompt_text_as_sampled(
    const tokenizer& words, const chat_template& chat, const generation_request& request,
    const storage::agent_state& state, const render_options& options) {
    auto note = state.notes.find(turns_note);
    if (note == state.notes.end()) return std::optional<marked_text>();
    conversation reworded = request.chat;
    // An unfinished answer that the request wants continued is left out of the comparison: it
    // continues from the text that the client sent.
    std::optional<message> open;
    if (reworded.end == prompt_end::inside_answer && !reworded.messages.empty()) {
        open = std::move(reworded.messages.back());
        reworded.messages.pop_back();
    }
    const marked_text said = said_in(words, state);
    auto turns = decode_turns(note->second, said.size());
    if (replay_turns(reworded, said, turns, chat) == 0) return std::optional<marked_text>();
    if (open) reworded.messages.push_back(std::move(*open));
    auto text = chat.render_marked(reworded, options);
    if (!text) return text.error();
    return std::optional(std::move(*text));
}

}  // namespace semantic::engine
