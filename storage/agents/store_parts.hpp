#pragma once
// What the parts of one agent_cache_store work on: its saver, restorer, evictor and directory know
// each other's work by this alone. Owner: agent_cache_store. Thread: everything in it is safe from
// any thread.

#include <string>
#include <utility>

#include "storage/agents/agent_cache_store.hpp"
#include "storage/agents/agent_index.hpp"
#include "storage/agents/state_blocks.hpp"
#include "storage/disk/block_files.hpp"
#include "storage/disk/disk_quota.hpp"
#include "storage/files/file.hpp"
#include "storage/files/parallel.hpp"
#include "storage/pool/block_pool.hpp"
#include "storage/types/probe.hpp"

namespace semantic::storage {

inline std::vector<block_hash> concatenated(std::vector<block_hash> first,
                                            const std::vector<block_hash>& second) {
    first.insert(first.end(), second.begin(), second.end());
    return first;
}

// Notes of the store's own in a manifest: which weights made the KV, what clients called the model,
// and the state's private_salt, absent where that is zero.
constexpr const char* model_note = "model";
constexpr const char* model_name_note = "model_name";
constexpr const char* private_note = "private";
constexpr std::size_t own_notes = 3;

struct store_parts {
    store_parts(store_options given, block_pool& frames)
        : options(std::move(given)),
          files(options.files != nullptr ? *options.files : posix_file_system()),
          pool(frames),
          shape(options.fingerprint, options.tenant_salt, frames.layout()),
          quota(files, options.directory, probe),
          blocks(files, options.directory, frames.layout(), quota, probe),
          index(
              shape,
              {[this](const block_hash& name, kv_part part) { return blocks.is_good(name, part); },
               [this](const block_hash& name, kv_part part) { return blocks.is_known(name, part); },
               [this](std::span<const block_hash> names) { blocks.retain(names); }}) {}
    store_parts(const store_parts&) = delete;
    store_parts& operator=(const store_parts&) = delete;

    std::string full_path(const std::string& relative) const {
        return options.directory + "/" + relative;
    }

    const store_options options;
    file_system& files;
    block_pool& pool;
    const state_blocks shape;
    store_probe probe;
    disk_quota quota;
    block_files blocks;
    file_workers workers;
    agent_index index;
};

}  // namespace semantic::storage
