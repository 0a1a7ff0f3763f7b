// SPDX-License-Identifier: Apache-2.0
#pragma once
// Repairs the arguments of earlier calls for templates, which need an object: models write invalid
// arguments and limits cut them off, and every later request of the conversation has them. Pure.

#include <optional>
#include <string>
#include <string_view>

namespace semantic::engine {

/// The member under which a template gets arguments that cannot be repaired.
constexpr std::string_view raw_arguments_name = "raw_arguments";

/// Completes the beginning of a JSON object. A member without a value, and an incomplete number or
/// word, are left out; an incomplete string is closed. Line breaks inside strings are escaped.
/// Returns: compact JSON; nothing if `text` is not a JSON object or the beginning of one, or nested
/// deeper than calls may be.
std::optional<std::string> completed_object(std::string_view text);

/// Returns: the object, as JSON, that templates print for arguments: completed_object(); otherwise
/// {} for white space and null; otherwise an object with the text under raw_arguments_name. For a
/// call that was cut off its text begins as the sampled one.
std::string object_of_arguments(std::string_view text);

}  // namespace semantic::engine
