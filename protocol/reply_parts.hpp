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

/// Returns: the field `semantic` of a reply: how much of the prompt came from memory, and why not
/// more. Clients that do not know it ignore it.
boost::json::object memory_object(std::string_view agent, const engine::prompt_usage& usage);
/// Adds what is known at the end of an answer: "saved"; why it was not ("not_saved");
/// "bytes_written" where a save has ended; "drafts" by source where some were run.
void add_ending(boost::json::object& memory, const engine::finished& event);
/// Returns: both together.
boost::json::object memory_object(std::string_view agent, const engine::prompt_usage& usage,
                                  const engine::finished& event);

/// Adds the names of what was left out of the prompt, if anything was.
void add_left_out(boost::json::object& memory, const std::vector<std::string>& left_out);

/// Returns: the error of an answer that was cancelled or ran out of time; nothing for a finished
/// one.
std::optional<failure> unfinished(const engine::finished& event);

bool is_white_space(std::string_view text) noexcept;

/// Returns: a call's arguments as compact JSON; nothing where they are no JSON object.
std::optional<std::string> checked_arguments(std::string_view arguments_json);

}  // namespace semantic::protocol
