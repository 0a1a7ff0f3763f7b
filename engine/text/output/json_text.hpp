// SPDX-License-Identifier: Apache-2.0
#pragma once
// JSON as chat templates print it: what Python's json.dumps(ensure_ascii=False) gives.

#include <string>
#include <string_view>

#include "storage/types/errc.hpp"

namespace boost::json {
class value;
}

namespace semantic::engine {

/// The value as JSON with ", " and ": " between parts, keys in the order given, and only the
/// escapes that JSON requires.
std::string to_json_text(const boost::json::value& json);
/// The value as JSON over several lines, as Python's json.dumps(indent=4) prints it.
std::string to_indented_json_text(const boost::json::value& json);
/// `text` as a JSON string, with its quotes.
std::string quoted(std::string_view text);
/// Parses `json`, an object, and prints it in that form. Errors: bad_value, with `owner`, if it is
/// not an object.
storage::result<std::string> respaced_object(std::string_view json, std::string_view owner);

}  // namespace semantic::engine
