// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the dialects' parsers have in common: strings with a bound, lists with a bound, names. Pure.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "protocol/wire/errc.hpp"
#include "protocol/wire/json.hpp"

namespace semantic::protocol {

/// Returns: a client's text in quotes for an error message, cut after 64 bytes.
std::string quoted(std::string_view text);

// All of these complain of what they read and return a default then, as json_cursor does.

/// Reads a string of 1 to `bytes_max` bytes.
std::string parse_bounded(const json_cursor& field, std::size_t bytes_max);
/// Returns: how many items a list has. 0, with a complaint, when it is no array or has more than
/// `count_max`; 0 also when an earlier field was wrong, since nothing more needs to be read then.
std::size_t parse_count(const json_cursor& field, std::size_t count_max);

/// Reads the required field `key`, a string of any length.
std::string string_at(const json_cursor& object, std::string_view key);
/// Reads the required field `key`, as parse_bounded().
std::string bounded_at(const json_cursor& object, std::string_view key, std::size_t bytes_max);
/// Reads the boolean field `key`; `otherwise` where it is absent.
bool flag_at(const json_cursor& object, std::string_view key, bool otherwise = false);

/// Returns: the error of a query parameter, "NAME: SENTENCE".
failure bad_parameter(const char* name, std::string_view sentence);
/// Reads the query parameter `limit`, the most items of a page: 1 to 1,000; `otherwise` where it is
/// absent. Errors: bad_value.
result<std::size_t> parse_page_limit(const std::optional<std::string>& text, std::size_t otherwise);

/// Returns: the system text without a line of accounting that some clients write at its beginning.
/// It changes with every request and says nothing to a model, so with it no prompt would match the
/// memory of the one before.
std::string without_billing_line(std::string system);

/// Whether the name has only letters, digits, - and _, which the vendors accept, so that it cannot
/// end a prompt's markup early.
bool is_tool_name(std::string_view name) noexcept;

}  // namespace semantic::protocol
