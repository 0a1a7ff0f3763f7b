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

bool same_note(const storage::agent_state& state, const std::map<std::string, std::string>& notes,
               const char* key) {
    auto found = state.notes.find(key);
    return found != state.notes.end() && found->second == notes.at(key);
}

}  // namespace

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
    std::from_chars(note.data(), note.data() + note.size(), tokens);
    return std::min(tokens, state.tokens.size());
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
    auto turns = decode_turns(note->second, state.text.size());
    std::erase_if(turns, [&](const sampled_turn& turn) { return turn.end > bytes; });
    return turns;
}

}  // namespace semantic::engine
