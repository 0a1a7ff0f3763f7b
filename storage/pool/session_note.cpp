// SPDX-License-Identifier: Apache-2.0
#include "storage/pool/session_note.hpp"

namespace semantic::storage {

namespace {

// Some 30 sessions with the longest names.
constexpr std::size_t note_bytes_max = 4096;

}  // namespace

std::string session_names(const agent_state& state) {
    const auto note = state.notes.find(sessions_note);
    return note == state.notes.end() ? std::string() : note->second;
}

std::string add_session(const std::string& note, const std::string& session) {
    if (names_session(note, session)) return note;
    std::string longer = note.empty() ? session : note + " " + session;
    // Ends, since a single name is shorter than the bound.
    while (longer.size() > note_bytes_max) longer.erase(0, longer.find(' ') + 1);
    return longer;
}

bool names_session(const std::string& note, const std::string& session) {
    return (" " + note + " ").find(" " + session + " ") != std::string::npos;
}

}  // namespace semantic::storage
