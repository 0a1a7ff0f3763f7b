// SPDX-License-Identifier: Apache-2.0
#pragma once
// How long an agent's memory is to be kept, as a client asks for it. Plain values.

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace semantic::storage {

/// A wish, not a promise: the budgets of pool and disk come first.
struct memory_policy {
    /// Counted from the last use; 0: the memory is the first to go. Absent: the request asks for
    /// nothing, and what was asked for before holds.
    std::optional<std::chrono::seconds> keep_seconds{};
    /// Kept without an end. Absent: likewise.
    std::optional<bool> pinned{};

    /// Ten years.
    static constexpr std::chrono::seconds keep_seconds_max = std::chrono::hours(24 * 3650);

    bool operator==(const memory_policy&) const = default;
    bool is_empty() const noexcept { return !keep_seconds && !pinned; }
    /// Returns: this policy, with fields that it leaves out taken from `former`.
    memory_policy or_else(const memory_policy& former) const;
};

/// The note of an agent's manifest that has its policy.
inline constexpr const char* policy_note = "policy";
/// Returns: the policy as a note, as "keep=3600 pin"; empty for an empty policy. `pinned` = false
/// is encoded as absent.
std::string encode_policy(const memory_policy& policy);
/// Returns: the policy of a note; an empty policy for a note that this program has not written.
memory_policy decode_policy(std::string_view note);

/// What a policy asks for at a certain time, in rising order of protection.
enum class memory_claim {
    first_to_go,  // kept for 0 seconds
    none,         // no policy, one that has run out, or beyond the tenant's share
    kept,
    pinned,
};
/// "first_to_go", "none", "kept", "pinned".
const char* to_string(memory_claim claim) noexcept;

}  // namespace semantic::storage
