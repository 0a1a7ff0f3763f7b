// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which model a body asks for, before it is known whose engine parses it. Pure.

#include <optional>
#include <string>
#include <string_view>

namespace semantic::protocol {

/// Returns: the first string field "model" of a JSON object, without parsing the body; nothing
/// where there is none, or the text is too broken to find it. It only follows strings and brackets,
/// and leaves it to the parser whether the body is JSON.
std::optional<std::string> named_model(std::string_view body);

}  // namespace semantic::protocol
