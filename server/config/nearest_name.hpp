// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a name that is none was probably meant to be. Pure.

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace semantic::server {

/// Returns: the one of `names` that `given` becomes by the fewest letters put in, left out, changed
/// or exchanged with the next: one of four at most.
std::optional<std::string> nearest_name(std::string_view given, std::span<const std::string> names);

}  // namespace semantic::server
