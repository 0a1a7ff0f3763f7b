// SPDX-License-Identifier: Apache-2.0
#pragma once
// JSON from files that may be damaged: Boost.JSON with what it lets pass refused as well (a key
// twice in one object). Pure; safe from any thread.

#include <boost/json/value.hpp>

#include <string>
#include <string_view>

#include "storage/types/errc.hpp"

namespace semantic::storage {

/// Errors: corrupt, saying what is wrong and at which byte: not JSON, not UTF-8, nested deeper than
/// 16, a duplicate key, anything but white space after the value.
result<boost::json::value> parse_strict_json(std::string_view text);

/// Appends `text` as a JSON string. Requires: `text` is UTF-8.
void append_json_string(std::string& out, std::string_view text);

}  // namespace semantic::storage
