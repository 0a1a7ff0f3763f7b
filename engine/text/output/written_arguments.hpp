// SPDX-License-Identifier: Apache-2.0
#pragma once
// The arguments of an earlier call, in whatever form they were written: models cut them off and
// misspell them, and every later request of the conversation carries them. Pure.

#include <optional>
#include <string>
#include <string_view>

namespace semantic::engine {

/// Under this name a template gets arguments of which no object can be made.
constexpr std::string_view raw_arguments_name = "raw_arguments";

/// `text`: JSON of an object, or the beginning of it, nested no deeper than calls may be. A member
/// whose value has not begun, and a number or a word that is no value yet, are left out; a string
/// ends where the text ends. Line breaks inside of strings are escaped. Returns: compact JSON, or
/// nothing where `text` is neither.
std::optional<std::string> completed_object(std::string_view text);

/// The object that templates print for arguments: completed_object(), else {} for what says nothing
/// (white space, null), else an object with the text under raw_arguments_name. What was sampled of
/// a call that was cut is the beginning of what is printed for it. Returns: JSON.
std::string object_of_arguments(std::string_view text);

}  // namespace semantic::engine
