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

/// A client's text for an error message: enough to recognise it, never a page of it, in quotes.
std::string quoted(std::string_view text);

// All of these complain of what they read and return a default then, as json_cursor does.

/// A string of 1 to `bytes_max` bytes.
std::string parse_bounded(const json_cursor& field, std::size_t bytes_max);
/// Returns: how many items; 0 with a complaint, when there are more than `count_max` or it is no
/// array. 0 also when something before was wrong: nothing after it needs to be read.
std::size_t parse_count(const json_cursor& field, std::size_t count_max);

/// The field `key`, of any length.
std::string string_at(const json_cursor& object, std::string_view key);
/// The field `key` as parse_bounded() takes it.
std::string bounded_at(const json_cursor& object, std::string_view key, std::size_t bytes_max);
/// The field `key`, or `otherwise` where there is none.
bool flag_at(const json_cursor& object, std::string_view key, bool otherwise = false);

/// What is wrong with a query parameter: "NAME: SENTENCE".
failure bad_parameter(const char* name, std::string_view sentence);
/// The items a page may have, from the query parameter `limit`: 1 to 1,000. Errors: bad_value.
result<std::size_t> parse_page_limit(const std::optional<std::string>& text, std::size_t otherwise);

/// A system text without the line of accounting that some clients write at its head: it changes
/// from request to request, says nothing to a model, and would part every prompt from the memory
/// kept for it.
std::string without_billing_line(std::string system);

/// Letters, digits, - and _: what the vendors accept, and nothing that could end a prompt's markup
/// early.
bool is_tool_name(std::string_view name) noexcept;

}  // namespace semantic::protocol
