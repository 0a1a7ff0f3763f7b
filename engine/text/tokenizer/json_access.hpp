// SPDX-License-Identifier: Apache-2.0
#pragma once
// Lenient reading of members that tokenizer files may leave out. For engine/text/*.cpp only.

#include <string>
#include <string_view>

#include "engine/text/tokenizer/regex.hpp"

namespace boost::json {
class array;
class value;
}  // namespace boost::json

namespace semantic::engine {

/// The member, or a null value when `json` is no object or has none.
const boost::json::value& member(const boost::json::value& json, std::string_view key);
/// Its text; empty when it is missing, null or not a string.
std::string text_of(const boost::json::value& json, std::string_view key);
bool flag_of(const boost::json::value& json, std::string_view key, bool otherwise);
/// Null when it is missing or not an array.
const boost::json::array* array_of(const boost::json::value& json, std::string_view key);
/// The "pattern" member: {"Regex": ...} or {"String": ...}. Errors: incompatible, corrupt.
storage::result<regex> parse_pattern(const boost::json::value& json, std::string_view owner);

}  // namespace semantic::engine
