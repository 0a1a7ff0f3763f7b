// SPDX-License-Identifier: Apache-2.0
#pragma once
// Removes from an object store the blocks that no machine's manifest needs any more, and tombstones
// that every machine has had time to see. Writers need not stop: the sweep first announces what it
// will remove (sweep_notice), and a writer whose manifest needs an announced block waits until the
// sweep is over, then uploads the block again (shared_agents). Clocks: only those of the machines
// that sweep, which are compared with each other.

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "storage/objects/object_store.hpp"

namespace semantic::storage {

/// The object by which sweeps and writers know of each other.
struct sweep_notice {
    static constexpr const char* name = "sweep";
    std::int64_t began = 0;       // the last sweep, in seconds since 1970
    std::set<std::string> going;  // objects that are being removed; empty: no sweep is under way
    /// Since when nobody has been seen to need an object, in seconds since 1970.
    std::map<std::string, std::int64_t> unneeded{};
};

/// Returns: the bytes of the notice's object.
std::string encode_sweep_notice(const sweep_notice& notice);
/// Errors: corrupt.
object_result<sweep_notice> decode_sweep_notice(std::string_view bytes);

struct seen_notice {
    sweep_notice notice;
    std::string version;  // empty: no sweep has been made yet
};
/// Blocks. Returns: the notice in the store, an empty one where there is none. Errors: corrupt;
/// those of the store.
object_result<seen_notice> read_sweep_notice(object_store& objects);

/// The contents of the object that replaces an erased agent's manifest; no manifest begins so.
inline constexpr std::string_view tombstone = "semantic: erased\n";

struct sweep_options {
    /// How long nobody must have needed a block before it goes: longer than a fetch takes.
    std::chrono::seconds grace{24 * 3600};
    /// How long a tombstone stays: a machine that was not there for as long brings its agent back.
    std::chrono::seconds tombstone_grace{90 * 24 * 3600};
    /// When a sweep that is under way counts as dead. No sweep removes anything after half of it.
    std::chrono::seconds dead_after{3600};
    bool only_looks = false;  // nothing is written
    std::chrono::system_clock::time_point now = std::chrono::system_clock::now();
};

struct sweep_report {
    std::uint64_t manifests = 0;
    std::uint64_t tombstones = 0;
    std::uint64_t unreadable = 0;  // manifests; while there are any, nothing is removed
    std::uint64_t blocks = 0;
    std::uint64_t unneeded = 0;  // blocks and tombstones, those removed among them
    std::uint64_t removed = 0;   // or would be
    std::uint64_t removed_bytes = 0;
};

/// Blocks. Performs one sweep, or with only_looks says what one would do. What an earlier sweep
/// announced before it died is removed, too. Errors: precondition_failed, where another sweep is
/// under way; those of the store.
object_result<sweep_report> sweep_objects(object_store& objects, const sweep_options& options);

}  // namespace semantic::storage
