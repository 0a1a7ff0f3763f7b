// SPDX-License-Identifier: Apache-2.0
#pragma once
// The notes that are kept with an agent's memory (agent_state::notes, text by key) for its later
// prompts: how they are written and read. Pure.

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

constexpr const char* day_note = "day";  // the date that the agent's prompts have
// For agents that clients continue by an answer's name (message_threads): the tools, the effort of
// reasoning that the prompt has, and where in the text the latest answers begin.
constexpr const char* thread_tools_note = "thread_tools";
constexpr const char* thread_deferred_note = "thread_deferred_tools";
constexpr const char* thread_callable_note = "thread_callable_tools";
constexpr const char* thread_effort_note = "thread_effort";
constexpr const char* answers_note = "thread_answers";

/// Where the agent's last complete answer begins and ends in its memory: `append` puts the next
/// messages after it. Forks and exported agents keep this note, but not the named answers
/// (agent_state::messages).
constexpr const char* last_answer_note = "last_answer";

struct ended_answer {
    std::size_t begin = 0;   // byte in the agent's text
    std::size_t tokens = 0;  // up to its end, followed by `rest`
    std::string rest{};      // as in storage::message_end
};

/// Set if the agent's last message was only read (generation_request::only_reads) and has no
/// answer: the number of tokens up to its end.
constexpr const char* open_message_note = "open_message";
/// Returns: that number; nothing if the last message has an answer or the note is invalid.
std::optional<std::size_t> open_message(const storage::agent_state& state);

/// Set for an agent that was saved while its prompt was still being read: the number of its tokens
/// then. The memory ends in the middle of the prompt.
constexpr const char* partly_read_note = "partly_read";
/// Whether the memory ends with prompt text, not with an answer. Its last tokens may then have to
/// be tokenised again together with the text that follows.
bool ends_in_reading(const storage::agent_state& state);

/// The text of last_answer_note.
std::string encode_answer(const ended_answer& answer);
/// Returns: the agent's last complete answer; nothing if it has none or its note is invalid.
std::optional<ended_answer> last_answer(const storage::agent_state& state);

/// How many of an agent's tokens, from the start, are known to be the tokenisation of its text
/// ("canonical"): at least those of its first prompt. A model may sample other tokens of the same
/// text; other agents must not reuse those.
constexpr const char* canonical_note = "canonical_tokens";

/// Returns: what canonical_note says, at most the tokens there are; 0 without it.
std::size_t canonical_tokens(const storage::agent_state& state);

/// Set for a fork that has no turn of its own yet: the byte of its text at which it was made. Its
/// memory may be longer, up to the end of the shared block.
constexpr const char* forked_note = "forked_at";
/// Returns: that byte; nothing if the agent is no such fork.
std::optional<std::size_t> forked_at(const storage::agent_state& state);

/// Returns: hashes of the system text and the tools, by which a later miss can be explained.
std::map<std::string, std::string> notes_of(const conversation& chat);
/// Returns: the agent's note with this key; empty if it has none.
std::string note_of(const storage::agent_state& state, const char* key);

/// Whether the agent's tools are those of a prompt with the notes `notes`.
bool same_tools(const storage::agent_state& state, const std::map<std::string, std::string>& notes);
/// Returns: which part of the request has changed (tools, system text or messages), for a prompt
/// with `notes` that does not continue the agent's memory.
miss_reason why_diverged(const storage::agent_state& state,
                         const std::map<std::string, std::string>& notes);

/// The part of answers_note for one answer, which begins at byte `begin` of the agent's text.
std::string begin_note(const std::string& message_id, std::size_t begin);
/// Returns: the byte of the text at which the answer begins; nothing if `note` does not have it.
std::optional<std::size_t> begin_of(const std::string& note, const std::string& message_id);

/// The turns that the model wrote, as far as they end within the first `bytes` bytes of the agent's
/// text.
std::vector<sampled_turn> turns_in(const storage::agent_state& state, std::size_t bytes);

}  // namespace semantic::engine
