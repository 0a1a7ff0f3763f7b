// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a name that is none was probably meant to be. Pure.

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace semantic::server {

/// Returns: the one of `names` that is most similar to a misspelled `given`; nothing where more
/// than a quarter of its letters (one at least) would have to change.
std::optional<std::string> nearest_name(std::string_view given, std::span<const std::string> names);

}  // namespace semantic::server
