// SPDX-License-Identifier: Apache-2.0
#include "engine/fork_place.hpp"

#include <algorithm>
#include <string>

#include "engine/prompt/prompt_notes.hpp"

namespace semantic::engine {

namespace {

using storage::agent_state;

/// The bytes of text of the first `tokens` tokens.
std::size_t bytes_of(const agent_state& memory, std::size_t tokens) {
    return tokens == 0 ? 0 : memory.token_ends[tokens - 1];
}

/// The model's turns that begin within the first `bytes` bytes of the text.
std::vector<sampled_turn> turns_within(const agent_state& memory, std::size_t bytes) {
    std::vector<sampled_turn> turns = turns_in(memory, memory.text.size());
    std::erase_if(turns, [&](const sampled_turn& turn) { return turn.begin >= bytes; });
    return turns;
}

/// The byte at which the answer begins that ends after `said` bytes of the text; `said` if that is
/// not known.
std::size_t answer_begin(const agent_state& memory, const std::string& message_id,
                         std::size_t said) {
    if (const auto begin = begin_of(note_of(memory, answers_note), message_id))
        return std::min(*begin, said);
    const std::vector<sampled_turn> turns = turns_within(memory, said);
    return !turns.empty() && turns.back().end >= said ? turns.back().begin : said;
}

/// The notes of the memory as they are right for the first `bytes` bytes of its text.
std::map<std::string, std::string> notes_within(const agent_state& memory, std::size_t bytes) {
    std::map<std::string, std::string> notes = memory.notes;
    for (const char* of_its_end : {last_answer_note, open_message_note, partly_read_note})
        notes.erase(of_its_end);
    notes[forked_note] = std::to_string(bytes);
    const std::vector<sampled_turn> turns = turns_within(memory, bytes);
    if (turns.empty())
        notes.erase(turns_note);
    else
        notes[turns_note] = encode_turns(turns);
    return notes;
}

}  // namespace

storage::result<fork_place> fork_place_in(const agent_state& memory, const fork_point& at) {
    // A place by the number of tokens, or by the name of an answer.
    if (!at.message) {
        const int tokens = at.tokens.value_or(0);
        if (tokens < 0 || static_cast<std::size_t>(tokens) > memory.tokens.size())
            return storage::failure{storage::errc::bad_value,
                                    "agent " + memory.id.str() + " has " +
                                        std::to_string(memory.tokens.size()) + " tokens"};
        const auto count = static_cast<std::size_t>(tokens);
        return fork_place{count, notes_within(memory, bytes_of(memory, count))};
    }
    const auto end = std::ranges::find(memory.messages, *at.message, &storage::message_end::id);
    if (end == memory.messages.end())
        return storage::failure{storage::errc::not_found,
                                "agent " + memory.id.str() + " has no answer " + *at.message};
    const std::size_t said = bytes_of(memory, end->tokens) + end->rest.size();
    fork_place place{end->tokens, notes_within(memory, said)};
    place.notes[last_answer_note] =
        encode_answer({answer_begin(memory, *at.message, said), end->tokens, end->rest});
    return place;
}

storage::result<std::optional<fork_place>> find_fork_place(const storage::agent_cache_store& store,
                                                           const storage::agent_id& from,
                                                           const fork_point& at) {
    if (!at.message && !at.tokens) return std::optional<fork_place>();
    const auto memory = store.find(from);
    if (!memory) return storage::failure{storage::errc::not_found, "no agent " + from.str()};
    auto place = fork_place_in(*memory, at);
    if (!place) return place.error();
    return std::optional<fork_place>(std::move(*place));
}

}  // namespace semantic::engine
