// SPDX-License-Identifier: Apache-2.0
#pragma once
// A note of an agent that has another name than the session under which its text was said: a branch
// of the session, or turns that gave way to another machine's. The erasure of a session finds the
// agent by this note. Pure.

#include <string>

#include "storage/pool/agent_state.hpp"

namespace semantic::storage {

/// The note's key. Its value: names of sessions with a blank between two.
inline constexpr const char* sessions_note = "sessions";

/// Returns: the value of the state's note, names with blanks between them; empty where there is
/// none.
std::string session_names(const agent_state& state);
/// Returns: the note with `session` added. Beyond 4,096 bytes the earliest names are dropped.
std::string add_session(const std::string& note, const std::string& session);
/// Whether the note lists `session`.
bool names_session(const std::string& note, const std::string& session);

}  // namespace semantic::storage
