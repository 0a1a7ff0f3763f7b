// SPDX-License-Identifier: Apache-2.0
#pragma once
// Reads members of tokenizer files that may be missing. For engine/text/*.cpp only.

#include <string>
#include <string_view>

#include "engine/text/tokenizer/regex.hpp"

namespace boost::json {
class array;
class value;
}  // namespace boost::json

namespace semantic::engine {

/// The member `key`; a null value if `json` is no object or has no such member.
const boost::json::value& member(const boost::json::value& json, std::string_view key);
/// A member's text; empty if it is missing or not a string.
std::string text_of(const boost::json::value& json, std::string_view key);
bool flag_of(const boost::json::value& json, std::string_view key, bool otherwise);
/// A member's array; null if it is missing or not an array.
const boost::json::array* array_of(const boost::json::value& json, std::string_view key);
/// Compiles the member "pattern": {"Regex": ...} or {"String": ...}. `owner`: the component, for
/// error messages. Errors: incompatible, corrupt.
storage::result<regex> parse_pattern(const boost::json::value& json, std::string_view owner);

}  // namespace semantic::engine
