// SPDX-License-Identifier: Apache-2.0
#pragma once
// POST /v1/coordination/sessions: its body, and the session it opens. Pure.

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "protocol/coordination/session.hpp"
#include "protocol/wire/errc.hpp"
#include "protocol/wire/json.hpp"

namespace semantic::protocol::coordination {

// Characters where a text is for people, bytes where it is for a file or an index.
inline constexpr std::size_t agents_max = 30;
inline constexpr std::size_t name_characters_max = 50;
inline constexpr std::size_t role_bytes_max = 50;
inline constexpr std::size_t system_characters_max = 4'000;
inline constexpr std::size_t prompt_characters_max = 50'000;
inline constexpr std::size_t prior_messages_max = 10'000;  // of one agent
inline constexpr int turns_max = 1'000;

/// Returns: how many characters a text in UTF-8 has.
std::size_t characters(std::string_view text) noexcept;
/// Whether a field must be there and not empty.
enum class presence { optional, required };
/// Reads a string of at most `max` characters; empty where it is absent. Complains, as
/// protocol/wire/fields.hpp does.
std::string text_at(const json_cursor& object, std::string_view key, std::size_t max,
                    presence demanded);
/// Whether the text can be an id of a session or agent, or a prefix: [A-Za-z0-9._:-], at least one
/// character.
bool is_name(std::string_view text) noexcept;

struct prior_message {
    std::string sender_id;
    std::string sender_name;
    std::string text;
};

struct opening {
    session made;  // without lines
    std::string initial_prompt{};
    std::vector<std::pair<int, std::string>> own_prompts{};  // each for one agent alone
    std::vector<std::pair<int, std::vector<prior_message>>> prior{};
};

/// Parses the body. `session_id`: of the new session; `new_agent_id`: makes an id for an agent that
/// has none. Errors: malformed_json, body_too_large, missing_field, bad_value; each names the JSON
/// path.
result<opening> parse_opening(std::string_view body, std::string session_id,
                              const std::function<std::string()>& new_agent_id,
                              const json_limits& limits = {});

/// Returns: the session, with the lines that its agents read first. `remembers`: whether an agent
/// has a memory from before, so that it does not read again what it was part of. `line_id`: makes
/// an id for a line.
session open_session(opening wanted, const std::function<bool(const agent&)>& remembers,
                     const std::function<std::string()>& line_id);

}  // namespace semantic::protocol::coordination
