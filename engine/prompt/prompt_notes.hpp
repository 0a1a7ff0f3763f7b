// SPDX-License-Identifier: Apache-2.0
#pragma once
// The notes that a prompt leaves with its agent, and what they say to the next one. Pure.

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/prompt/turn_replay.hpp"
#include "engine/types/conversation.hpp"
#include "engine/types/generation.hpp"
#include "storage/pool/agent_state.hpp"

namespace semantic::engine {

constexpr const char* day_note = "day";  // that the template was given
// Of an agent that keeps a thread: its tools, the effort that its prompt names, and where in its
// text the latest answer begins and the next one, if that is being made.
constexpr const char* thread_tools_note = "thread_tools";
constexpr const char* thread_deferred_note = "thread_deferred_tools";
constexpr const char* thread_callable_note = "thread_callable_tools";
constexpr const char* thread_effort_note = "thread_effort";
constexpr const char* answers_note = "thread_answers";

/// Where the agent's last answer that came to its end begins and ends in its memory. Unlike the
/// ends that have names (agent_state::messages) it goes with a fork and an exported agent, whose
/// next turn comes after it.
constexpr const char* last_answer_note = "last_answer";

struct ended_answer {
    std::size_t begin = 0;   // byte in the agent's text
    std::size_t tokens = 0;  // up to its end, followed by `rest`
    std::string rest{};      // as in storage::message_end
};

/// Where the agent's last message ends in its memory, in tokens, if no answer came after it: it was
/// only read (generation_request::only_reads).
constexpr const char* open_message_note = "open_message";
/// Returns: nothing where the last message has an answer, or what is noted cannot be.
std::optional<std::size_t> open_message(const storage::agent_state& state);

/// The number of tokens of an agent that was saved while its prompt was read: more of the prompt
/// would have followed them, and there is no answer.
constexpr const char* partly_read_note = "partly_read";
/// Whether the memory ends with what was only read, so that its last tokens may be other ones when
/// the text goes on.
bool ends_in_reading(const storage::agent_state& state);

std::string encode_answer(const ended_answer& answer);
/// Returns: nothing where no answer came to its end, or what the agent notes of it cannot be.
std::optional<ended_answer> last_answer(const storage::agent_state& state);

/// How many of an agent's tokens, from the start, are known to be those that its text tokenises to.
/// What the model sampled may be other tokens of the same text. At least the first prompt's.
constexpr const char* canonical_note = "canonical_tokens";

/// Returns: what canonical_note says, at most the tokens there are; 0 without it.
std::size_t canonical_tokens(const storage::agent_state& state);

/// Of a fork that has no turn of its own yet: where in its text the place is that it was made at.
/// The rest of the block after that place came along.
constexpr const char* forked_note = "forked_at";
/// Returns: nothing where the agent is no such fork.
std::optional<std::size_t> forked_at(const storage::agent_state& state);

/// Notes that distinguish a changed system text and changed tools from changed messages.
std::map<std::string, std::string> notes_of(const conversation& chat);
/// Returns: empty where the agent has no such note.
std::string note_of(const storage::agent_state& state, const char* key);

/// `notes`: of another prompt.
bool same_tools(const storage::agent_state& state, const std::map<std::string, std::string>& notes);
/// The agent had a memory that a prompt with `notes` does not continue: which part of the request
/// changed.
miss_reason why_diverged(const storage::agent_state& state,
                         const std::map<std::string, std::string>& notes);

std::string begin_note(const std::string& message_id, std::size_t begin);
/// Where in the text the answer begins; nothing when the note does not have it.
std::optional<std::size_t> begin_of(const std::string& note, const std::string& message_id);

/// The agent's turns that end within the first `bytes` bytes of its text.
std::vector<sampled_turn> turns_in(const storage::agent_state& state, std::size_t bytes);

}  // namespace semantic::engine
