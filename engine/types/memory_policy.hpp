// SPDX-License-Identifier: Apache-2.0
#pragma once
// How long a memory is to be kept, as a request asks for it. Plain values.

#include <chrono>
#include <optional>

namespace semantic::engine {

/// How long a client wants a memory kept. Not a promise: the budgets of pool and disk come first.
struct memory_policy {
    /// Counted from the last use; 0: the memory may be removed at once. Absent: the former policy
    /// stays.
    std::optional<std::chrono::seconds> keep_seconds{};
    /// A pinned memory is evicted only after all that are not. Absent: the former policy stays.
    std::optional<bool> pinned{};

    bool operator==(const memory_policy&) const = default;
};

}  // namespace semantic::engine
