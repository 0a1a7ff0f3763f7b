// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which model a body asks for, before it is known whose engine parses it. Pure.

#include <optional>
#include <string>
#include <string_view>

namespace semantic::protocol {

/// Returns: the string of the field "model" of a JSON object, the first of several; nothing where
/// there is none, or the text cannot be followed to it. Only looks for the places of strings and
/// brackets: whether the body is JSON is for its parser to say.
std::optional<std::string> named_model(std::string_view body);

}  // namespace semantic::protocol
