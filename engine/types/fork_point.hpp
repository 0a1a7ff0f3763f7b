// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where a fork parts from its source. A plain value.

#include <optional>
#include <string>

namespace semantic::engine {

/// Neither: at its end.
struct fork_point {
    std::optional<std::string> message{};  // after the answer with this name
    std::optional<int> tokens{};           // else after so many tokens
};

}  // namespace semantic::engine
