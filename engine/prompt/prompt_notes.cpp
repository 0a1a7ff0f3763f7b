// SPDX-License-Identifier: Apache-2.0
#include "engine/prompt/prompt_notes.hpp"

#include <xxhash.h>

#include <algorithm>
#include <charconv>
#include <sstream>
#include <string_view>

#include "storage/types/hex.hpp"

namespace semantic::engine {

namespace {

constexpr const char* system_note = "system_hash";
constexpr const char* tools_note = "tools_hash";

std::string hash_of(std::string_view text) {
    return storage::hex_of(XXH3_64bits(text.data(), text.size()));
}

/// Removes a number and the blank after it from the front of `from`. Returns: false if there is
/// none.
bool take_number(std::string_view& from, std::size_t& number) {
    const auto [end, error] = std::from_chars(from.data(), from.data() + from.size(), number);
    const auto used = static_cast<std::size_t>(end - from.data());
    if (error != std::errc{} || used == from.size() || *end != ' ') return false;
    from.remove_prefix(used + 1);
    return true;
}

// Requires: `notes` has the key, as those of notes_of() have.
bool same_note(const storage::agent_state& state, const std::map<std::string, std::string>& notes,
               const char* key) {
    auto found = state.notes.find(key);
    return found != state.notes.end() && found->second == notes.at(key);
}

}  // namespace

std::optional<std::size_t> forked_at(const storage::agent_state& state) {
    const std::string note = note_of(state, forked_note);
    std::size_t bytes = 0;
    const auto [end, error] = std::from_chars(note.data(), note.data() + note.size(), bytes);
    if (note.empty() || error != std::errc{} || end != note.data() + note.size())
        return std::nullopt;
    return bytes;
}

std::map<std::string, std::string> notes_of(const conversation& chat) {
    std::string tools;
    for (const tool_definition& tool : chat.tools)
        for (const std::string* field : {&tool.name, &tool.description, &tool.parameters_json})
            tools += std::to_string(field->size()) + ":" + *field;
    return {{system_note, hash_of(chat.system)}, {tools_note, hash_of(tools)}};
}

std::string note_of(const storage::agent_state& state, const char* key) {
    auto found = state.notes.find(key);
    return found == state.notes.end() ? std::string() : found->second;
}

std::size_t canonical_tokens(const storage::agent_state& state) {
    const std::string note = note_of(state, canonical_note);
    std::size_t tokens = 0;
    // Without a valid note `tokens` stays 0.
    std::from_chars(note.data(), note.data() + note.size(), tokens);
    return std::min(tokens, state.tokens.size());
}

namespace {

/// Reads a note that is a number of the state's tokens; nothing if it is missing, 0, or greater
/// than their number.
std::optional<std::size_t> noted_tokens(const storage::agent_state& state, const char* key) {
    const std::string note = note_of(state, key);
    std::size_t tokens = 0;
    const auto [end, error] = std::from_chars(note.data(), note.data() + note.size(), tokens);
    const bool is_number = error == std::errc{} && end == note.data() + note.size();
    if (!is_number || tokens == 0 || tokens > state.tokens.size()) return std::nullopt;
    return tokens;
}

}  // namespace

std::optional<std::size_t> open_message(const storage::agent_state& state) {
    return noted_tokens(state, open_message_note);
}

bool ends_in_reading(const storage::agent_state& state) {
    const std::size_t all = state.tokens.size();
    return open_message(state) == all || noted_tokens(state, partly_read_note) == all;
}

std::string encode_answer(const ended_answer& answer) {
    return std::to_string(answer.begin) + " " + std::to_string(answer.tokens) + " " + answer.rest;
}

std::optional<ended_answer> last_answer(const storage::agent_state& state) {
    const auto end_of = [&](std::size_t tokens) -> std::size_t {
        return tokens == 0 ? 0 : state.token_ends[tokens - 1];
    };
    const std::string note = note_of(state, last_answer_note);
    std::string_view rest = note;
    ended_answer noted;
    const bool is_noted = take_number(rest, noted.begin) && take_number(rest, noted.tokens) &&
                          noted.tokens <= state.tokens.size() &&
                          noted.begin <= end_of(noted.tokens) + rest.size() &&
                          rest.size() <= storage::message_rest_bytes_max;
    noted.rest = rest;
    const auto& named = state.messages;
    if (named.empty()) return is_noted ? std::optional(std::move(noted)) : std::nullopt;
    const storage::message_end& last = named.back();
    if (is_noted && noted.tokens == last.tokens && noted.rest == last.rest) return noted;
    // The note is missing or older than the last named answer: that answer begins after the end of
    // the one before it.
    const std::size_t begin = named.size() < 2 ? 0 : end_of(named[named.size() - 2].tokens);
    return ended_answer{begin, last.tokens, last.rest};
}

bool same_tools(const storage::agent_state& state,
                const std::map<std::string, std::string>& notes) {
    return same_note(state, notes, tools_note);
}

miss_reason why_diverged(const storage::agent_state& state,
                         const std::map<std::string, std::string>& notes) {
    if (!same_tools(state, notes)) return miss_reason::tools_changed;
    if (!same_note(state, notes, system_note)) return miss_reason::system_changed;
    return miss_reason::messages_changed;
}

std::string begin_note(const std::string& message_id, std::size_t begin) {
    return message_id + " " + std::to_string(begin) + " ";
}

std::optional<std::size_t> begin_of(const std::string& note, const std::string& message_id) {
    std::istringstream words(note);
    std::string id;
    std::size_t begin = 0;
    while (words >> id >> begin)
        if (id == message_id) return begin;
    return std::nullopt;
}

std::vector<sampled_turn> turns_in(const storage::agent_state& state, std::size_t bytes) {
    auto note = state.notes.find(turns_note);
    if (note == state.notes.end()) return {};
    return decode_turns(note->second, bytes);
}

}  // namespace semantic::engine
