// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the parts of one agent_cache_store work on: its saver, restorer, evictor and directory know
// each other's work by this alone. Some of it is shared with the stores of other models. Owner:
// agent_cache_store. Thread: everything in it is safe from any thread.

#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <shared_mutex>
#include <string>
#include <utility>
#include <vector>

#include "storage/agents/agent_cache_store.hpp"
#include "storage/agents/agent_index.hpp"
#include "storage/agents/policy/write_bound.hpp"
#include "storage/agents/state_blocks.hpp"
#include "storage/disk/block_files.hpp"
#include "storage/disk/disk_quota.hpp"
#include "storage/disk/record_files.hpp"
#include "storage/disk/removal_trust.hpp"
#include "storage/files/file.hpp"
#include "storage/files/parallel.hpp"
#include "storage/pool/block_pool.hpp"
#include "storage/types/kv_event_feed.hpp"
#include "storage/types/probe.hpp"

namespace semantic::storage {

inline std::vector<block_hash> concatenated(std::vector<block_hash> first,
                                            const std::vector<block_hash>& second) {
    first.insert(first.end(), second.begin(), second.end());
    return first;
}

// The store's own notes in a manifest: the weights that made the KV, the name that clients gave to
// the model, and the state's private_salt, absent where that is zero. The manifest also has
// states_note where the model has recurrent states.
constexpr const char* model_note = "model";
constexpr const char* model_name_note = "model_name";
constexpr const char* private_note = "private";
// How many bytes were written for the agent, as 20 digits, so that manifests do not differ in
// length for it; policy_note is another one.
constexpr const char* written_note = "written";
// How many notes the store adds to each manifest at most: the four above and policy_note.
constexpr std::size_t own_notes = 5;

/// Returns: `percent` per cent of `bytes`, without overflow: the share that one tenant's policies
/// may claim.
inline std::uint64_t share_of(std::uint64_t bytes, unsigned percent) {
    return bytes / 100 * percent + bytes % 100 * percent / 100;
}

struct store_parts;

/// A cache directory as long as it is open in this process: what the stores of several models on it
/// have in common. Owner: the stores together; the last one that closes closes it. Thread: safe
/// from any, apart from what cache_directory::open() sets before anything else is called.
struct open_directory {
    open_directory(file_system& system, std::string where, std::shared_ptr<kv_event_feed> events)
        : files(system),
          path(std::move(where)),
          quota(files, path, probe),
          blocks(files, path, quota, probe, std::move(events)) {}
    open_directory(const open_directory&) = delete;
    open_directory& operator=(const open_directory&) = delete;

    file_system& files;
    const std::string path;
    store_probe probe;  // of all stores together
    disk_quota quota;
    block_files blocks;
    const std::shared_ptr<record_books> records = std::make_shared<record_books>();
    const std::shared_ptr<index_commons> index = std::make_shared<index_commons>();
    std::mutex relief_mutex;  // held while files are removed to make room on the disk
    removal_trust trust;      // guarded by relief_mutex
    write_bound writes;
    std::vector<store_parts*> stores;  // guarded by the index's mutex
    /// Held shared by a store that works on another store's data; a store that closes locks it
    /// exclusively.
    std::shared_mutex visits;

    bool is_open = false;  // by the first store
    // Random bytes, from which the ids of tenants are hashed with their credentials.
    std::string secret;
    bool all_understood = true;  // no manifest is of another format version
    std::mutex keep_mutex;       // held while a directory that is gone is made again
    // Of the directory, against other processes.
    std::unique_ptr<directory_lock> lock;
};

/// Where the stores of one process meet that are to have one directory.
class directory_share {
  public:
    /// Held while a store opens or closes.
    std::mutex mutex;
    std::weak_ptr<open_directory> open;  // guarded by the mutex
};

struct store_parts {
    store_parts(store_options given, block_pool& frames, std::shared_ptr<open_directory> opened)
        : options(std::move(given)),
          home(std::move(opened)),
          files(home->files),
          pool(frames),
          shape(options.fingerprint, options.tenant_salt, frames.layout()),
          formats(frames.layout()),
          probe(home->probe),
          quota(home->quota),
          blocks(home->blocks),
          index(
              shape,
              {[this](const block_hash& name, kv_part part) { return blocks.is_good(name, part); },
               [this](const block_hash& name, kv_part part) { return blocks.is_known(name, part); },
               [this](std::span<const block_hash> names) { blocks.retain(names); },
               [this](std::span<const block_hash> names) { return blocks.bytes_on_disk(names); }},
              home->index) {}
    store_parts(const store_parts&) = delete;
    store_parts& operator=(const store_parts&) = delete;

    std::string full_path(const std::string& relative) const {
        return options.directory + "/" + relative;
    }

    /// Decides for all agents which policies (keep, pin) count on the disk now, within each
    /// tenant's share.
    void weigh_disk_claims(const agent_index::lock& locked) {
        index.weigh_all_claims(locked, std::chrono::system_clock::now(),
                               share_of(probe.disk_budget_bytes, options.kept_share_percent));
    }

    /// Returns: the runs of stored blocks of a state, with the model's name, for events
    /// (state_blocks::runs()).
    std::vector<blocks_stored> runs_of(const agent_state& state,
                                       const std::vector<block_hash>& names,
                                       const std::function<bool(std::size_t)>& is_stored) const {
        auto runs = shape.runs(state, names, is_stored);
        for (blocks_stored& each : runs) each.model = options.model_name;
        return runs;
    }
    /// Publishes an event that the blocks of a state whose numbers are in `stored` are on disk now.
    void tell_stored(const agent_state& state, const std::vector<block_hash>& names,
                     const std::set<std::size_t>& stored) const {
        if (options.kv_events == nullptr || options.kv_events->followers() == 0) return;
        const auto is_stored = [&](std::size_t i) { return stored.contains(i); };
        for (blocks_stored& each : runs_of(state, names, is_stored))
            options.kv_events->publish([&]() -> kv_event { return std::move(each); });
    }

    /// Returns: the stores of other models on the same directory. Valid under the lock, or while
    /// home->visits is held.
    std::vector<store_parts*> others(const agent_index::lock&) const {
        std::vector<store_parts*> found;
        for (store_parts* each : home->stores)
            if (each != this) found.push_back(each);
        return found;
    }

    const store_options options;
    const std::shared_ptr<open_directory> home;
    file_system& files;
    block_pool& pool;
    const state_blocks shape;
    const block_formats formats;
    store_probe& probe;
    disk_quota& quota;
    block_files& blocks;
    file_workers workers;
    agent_index index;
};

}  // namespace semantic::storage
