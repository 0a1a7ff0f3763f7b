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

/// The name of the memory of an agent of `s`: persist_{prefix}_{agent} for a permanent one where
/// the session has a prefix, else coord_{session}_{agent}. In the first a prefix has each of its
/// `_` twice, and an agent's id may not begin with one, so that no two pairs share a name.
std::string memory_name(const session& s, const agent& agent);
bool outlives(const session& s, const agent& agent) noexcept;
/// The prefix in the name of a memory; nothing where it has none.
std::optional<std::string> prefix_of(std::string_view memory_name);

struct exchange {
    std::string read;
    std::string said;  // as the model wrote it
};

/// A part of a record: so many items, after those of the parts before it.
inline constexpr std::size_t part_items = 64;
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
    /// What the engine remembers of it is not known here: what comes is appended to that, and
    /// not kept as exchanges.
    bool has_older = false;
    std::vector<stored_part> parts{};  // that hold the first exchanges, where it is kept

    bool is_new() const noexcept { return exchanges.empty() && !has_older; }
};

struct prompt {
    engine::conversation chat;
    std::string reading;  // the last message: what the agent has not answered yet
    bool append = false;  // as engine::generation_request has it
};

/// The text that the agent reads before it speaks by `plan`: lines that it has not read and may
/// see, each once, then the cue. Never empty.
std::string reading_of(const session& s, const memory& memory, const turn_plan& plan);
/// The least bytes of the session's lines in reading_of(), known before that is made.
std::size_t unread_bytes(const session& s, int agent, std::size_t reads) noexcept;
/// The whole prompt of a turn.
prompt prompt_of(const session& s, const memory& memory, const turn_plan& plan);
/// The prompt that an agent may read ahead of its turn, which is to be `plan` as far as is known
/// now: the beginning of its prompt, whatever else is said before that turn. Nothing when there is
/// nothing to read, or no way to read it without an answer. `is_followed`: more is said before that
/// turn.
std::optional<prompt> prompt_ahead(const session& s, const memory& memory, const turn_plan& plan,
                                   bool is_followed = false);
/// All that the agent may see and then a question. Nothing of it is to be remembered, unless
/// it was appended (`append`): then it is part of the memory, and the lines count as read.
prompt prompt_aside(const session& s, const memory& memory, int agent, std::string_view question);

/// Keeps a turn that was taken with `reading`. Returns: false when it is not kept, because its
/// answer is empty: then the same is read again next time.
bool remember(memory& memory, const agent& speaker, std::string reading, std::string answer);

/// An answer as the transcript shows it: without the speaker's own name in front and without what
/// it wrote in the name of others. `names`: of all agents.
std::string shown_text(std::string_view answer, std::string_view own_name,
                       const std::vector<std::string>& names);

}  // namespace semantic::protocol::coordination
