// SPDX-License-Identifier: Apache-2.0
#pragma once
// The memory of an agent of a session: its name, and its content. Pure.
// A memory only grows: what an agent has read stays as it was first shown, so that each prompt
// continues the one before it.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/types/conversation.hpp"
#include "protocol/coordination/floor.hpp"
#include "protocol/coordination/session.hpp"

namespace semantic::protocol::coordination {

inline constexpr std::size_t prefix_bytes_max = 64;

/// Returns: the agent id under which the engine keeps this agent's memory: persist_{prefix}_{agent}
/// for a permanent agent of a session with a prefix, else coord_{session}_{agent}. In the former
/// each `_` of the prefix is doubled, and the agent's id may not begin with one, so that no two
/// pairs share a name.
std::string memory_name(const session& s, const agent& agent);
/// Whether the agent's memory stays when the session ends.
bool outlives(const session& s, const agent& agent) noexcept;
/// Returns: the prefix in a name that memory_name() has made; nothing where it has none.
std::optional<std::string> prefix_of(std::string_view memory_name);

struct exchange {
    std::string read;
    std::string said;  // as the model wrote it
};

/// A part of a record: so many items, after those of the parts before it.
inline constexpr std::size_t part_items = 64;
/// A part of a record that is stored in a file of its own: `items` items, which follow those of the
/// parts before it.
struct stored_part {
    std::string name;
    std::size_t items = part_items;
};

/// The bytes of an exchange in addition to its texts.
inline constexpr std::size_t exchange_own_bytes = 128;
inline std::size_t bytes_of(const exchange& each) noexcept {
    return exchange_own_bytes + each.read.size() + each.said.size();
}

/// The memory of one agent, over all sessions it was in.
struct memory {
    std::string system{};  // said once, at its beginning
    std::vector<exchange> exchanges{};
    /// The engine has memory of this agent that is not known here. So new text is appended to it,
    /// and not kept as exchanges.
    bool has_older = false;
    std::vector<stored_part> parts{};  // that hold the first exchanges, where it is kept

    bool is_new() const noexcept { return exchanges.empty() && !has_older; }
};

/// A prompt of an agent.
struct prompt {
    engine::conversation chat;
    std::string reading;  // the last message: what the agent has not answered yet
    bool append = false;  // as engine::generation_request has it
};

/// Returns: the text that the agent reads before its turn `plan`: the lines that it has not read
/// and may see, each once, then the cue. Never empty.
std::string reading_of(const session& s, const memory& memory, const turn_plan& plan);
/// Returns: a lower bound of the bytes that the session's lines have in reading_of(), without
/// making that text.
std::size_t unread_bytes(const session& s, int agent, std::size_t reads) noexcept;
/// Returns: the whole prompt of a turn.
prompt prompt_of(const session& s, const memory& memory, const turn_plan& plan);
/// Returns: the prompt that an agent may compute before its turn, which will be `plan` as far as is
/// known: the beginning of its later prompt, whatever else is said before that turn. `is_followed`:
/// more will be said before it. Nothing when there is nothing to read, or the agent cannot read
/// without an answer.
std::optional<prompt> prompt_ahead(const session& s, const memory& memory, const turn_plan& plan,
                                   bool is_followed = false);
/// Returns: a prompt with all that the agent may see, and then a question. It is not to be
/// remembered; but where it is appended (`append`) it becomes part of the memory all the same, and
/// the lines count as read.
prompt prompt_aside(const session& s, const memory& memory, int agent, std::string_view question);

/// Adds a turn to the agent's memory: what it read and its answer. Returns: false when it is not
/// added, because the answer is empty: the agent reads the same again next time.
bool remember(memory& memory, const agent& speaker, std::string reading, std::string answer);

/// Returns: an answer as the transcript shows it: without the speaker's own name in front, and
/// without what it wrote in the name of others. `names`: of all agents.
std::string shown_text(std::string_view answer, std::string_view own_name,
                       const std::vector<std::string>& names);

}  // namespace semantic::protocol::coordination
