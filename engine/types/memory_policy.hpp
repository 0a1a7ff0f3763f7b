// SPDX-License-Identifier: Apache-2.0
#pragma once
// How long a memory is to be kept, as a request asks for it. Plain values.

#include <chrono>
#include <optional>

namespace semantic::engine {

/// A wish, not a promise: the budgets of pool and disk come first.
struct memory_policy {
    /// Counted from the last use; 0: the memory may go at once. Absent: the request asks for
    /// nothing, and what was asked for before holds.
    std::optional<std::chrono::seconds> keep_seconds{};
    /// The memory is evicted after all that are not pinned. Absent: likewise.
    std::optional<bool> pinned{};

    bool operator==(const memory_policy&) const = default;
};

}  // namespace semantic::engine
