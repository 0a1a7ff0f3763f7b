// SPDX-License-Identifier: Apache-2.0
#pragma once
// Writes what is new of an agent: block files, then the manifest that needs them, in the order of
// the commit protocol (FORMAT.md). Owner: agent_cache_store. Thread: save() blocks; calls for one
// agent take turns.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "storage/agents/cache_directory.hpp"
#include "storage/agents/evictor.hpp"
#include "storage/agents/store_parts.hpp"

namespace semantic::storage {

class agent_saver {
  public:
    agent_saver(store_parts& parts, evictor& room, cache_directory& directory)
        : parts_(parts), room_(room), directory_(directory) {}

    /// Writes what is not on disk yet of the agent's memory (agent_cache_store::save()). Blocks.
    result<save_report> save(const agent_id& id, save_extent extent);

  private:
    /// The agent as it is when its save begins. The save works on this copy, without the lock.
    struct snapshot {
        state_ptr state;  // null when there is nothing to save
        std::vector<block_hash> names;
        // Of the recurrent states that it keeps, those that are saved, or are on disk already.
        std::vector<kept_state> kept{};
        std::vector<block_hash> kept_names{};
        std::uint64_t version = 0;
        std::uint64_t file_bytes = 0;  // of the manifest on disk
        std::uint64_t reconciliations = 0;
        std::optional<manifest_journal> before;
        std::uint64_t bytes_written = 0;  // for the agent, before this save
        std::uint64_t bytes_of_turn = 0;  // likewise
    };
    /// The bytes of a save's manifest, and what is known of the file once they are in it.
    struct manifest_plan {
        std::string bytes;
        bool append = false;
        std::uint64_t file_bytes = 0;  // of the whole file afterwards
        manifest_journal next;
    };
    result<save_report> save_once(const agent_id& id, const std::string& path, save_extent extent,
                                  cache_directory::repairs& left);
    snapshot take_snapshot(const agent_id& id, save_extent extent);
    state_ptr without_tail(const agent_record& agent, std::vector<block_hash>& names) const;
    std::vector<block_mark> marks_of(const agent_state& state,
                                     const std::vector<block_hash>& names) const;
    result<manifest_plan> plan_manifest(const snapshot& saved, std::uint64_t bytes_written) const;
    evictor::unmet_write size_of_write(const snapshot& saved, const manifest_plan& plan) const;
    result<void> write_out(const std::string& relative, const snapshot& saved, manifest_plan& plan,
                           cache_directory::repairs& left, save_report& report);
    result<void> write_files(const std::string& relative, const snapshot& saved,
                             manifest_plan& plan, disk_quota::promise& room, save_report& report);
    result<void> write_blocks(const snapshot& saved, disk_quota::promise& room,
                              save_report& report);
    result<void> write_kept(const snapshot& saved, disk_quota::promise& promised,
                            save_report& report);
    void choose_kept(const agent_record& agent, snapshot& saved) const;

    store_parts& parts_;
    evictor& room_;
    cache_directory& directory_;
};

}  // namespace semantic::storage
