// SPDX-License-Identifier: Apache-2.0
#pragma once
// The point of an agent's memory at which a fork begins. A plain value.

#include <optional>
#include <string>

namespace semantic::engine {

/// With neither set: at the end of the memory.
struct fork_point {
    std::optional<std::string> message{};  // after the answer with this name
    std::optional<int> tokens{};           // after so many tokens; ignored if `message` is set
};

}  // namespace semantic::engine
