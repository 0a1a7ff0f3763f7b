// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the replies of all dialects are made of. Pure.

#include <boost/json/object.hpp>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/types/generation.hpp"
#include "protocol/wire/errc.hpp"

namespace semantic::protocol {

/// What this server alone can say, for a field of its own that other clients skip.
boost::json::object memory_object(std::string_view agent, const engine::prompt_usage& usage);
/// Adds what became of the agent's memory: "saved", where it is not why ("not_saved"), and
/// "bytes_written" where a save has ended.
void add_ending(boost::json::object& memory, const engine::finished& event);
/// Both: what is said at the end of an answer.
boost::json::object memory_object(std::string_view agent, const engine::prompt_usage& usage,
                                  const engine::finished& event);

/// The request's `left_out`, where there is any.
void add_left_out(boost::json::object& memory, const std::vector<std::string>& left_out);

/// The failure that an unfinished answer is, or nothing for a finished one.
std::optional<failure> unfinished(const engine::finished& event);

bool is_white_space(std::string_view text) noexcept;

/// Returns: compact JSON, or nothing when this is no JSON object.
std::optional<std::string> checked_arguments(std::string_view arguments_json);

}  // namespace semantic::protocol
