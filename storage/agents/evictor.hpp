// SPDX-License-Identifier: Apache-2.0
#pragma once
// Makes room: in the pool by letting go of blocks, in the directory by removing files. What goes
// first is the index's decision (tier_policy), over all models that are loaded. Owner:
// agent_cache_store. Thread: safe from any; those marked "Blocks." do file I/O, without a lock.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "storage/agents/store_parts.hpp"

namespace semantic::storage {

class evictor {
  public:
    explicit evictor(store_parts& parts) : parts_(parts) {}

    /// Evicts clean agents until `frames` frames are free. `keep`: an agent that stays; may be
    /// null. Returns: whether they are.
    bool free_frames(std::size_t frames, const agent_id* keep);
    /// Frees frames for blocks that are read for the agent `id`. Other agents are evicted first;
    /// the agent's own blocks, which may belong to another branch of its conversation, only if that
    /// is not enough.
    bool free_frames_for(const agent_id& id, std::size_t frames);
    /// Drops the agent's blocks from the pool. Returns: false where it is dirty or unknown.
    bool evict(const agent_id& id);

    /// Blocks. Reserves `bytes` of the disk budget, after removing what had to go. Nothing is
    /// removed where all that may go would not be enough, or where the last removal gave the file
    /// system no room. Returns: the reservation. Errors: out_of_space, io.
    result<disk_quota::promise> free_disk(std::uint64_t bytes);
    /// Reserves `bytes` of the disk budget for a record of the tenant; only the tenant's own
    /// memories are removed for it. Blocks. Errors: out_of_space, io.
    result<disk_quota::promise> free_disk_for_record(const tenant_id& tenant, std::uint64_t bytes);
    /// Makes room on the disk for an upload of the tenant, and counts its bytes in the budget.
    /// Blocks. Errors: out_of_space, io.
    result<void> free_disk_for_upload(const tenant_id& tenant, std::uint64_t bytes);
    /// What a write still needs whose bytes were reserved and that found the file system full.
    struct unmet_write {
        std::uint64_t bytes = 0;
        std::uint64_t files = 0;           // inodes
        std::uint64_t largest_file = 0;    // bytes of the largest one that it makes
        std::uint64_t quota_refusals = 0;  // as the file system counted them before the write
        bool has_progressed = false;       // in its last attempt some file was written
        std::uint64_t bytes_removed = 0;   // for this write so far
        bool has_removed_directories = false;
        std::set<std::string> in_vain{};
    };
    /// Blocks. Makes room for such a write: removes empty folders, leftovers or one memory, if
    /// there is reason to expect that it helps. Returns: whether something was removed, so that the
    /// write is worth another try.
    bool relieve(unmet_write& write);
    /// Notes that `bytes` were written: the file system has room again, so removals may be trusted
    /// again (removal_trust).
    void note_written(std::uint64_t bytes);
    /// Blocks. Removes what is needed least: a leftover, files that nobody needs, a memory of
    /// whatever model. `in_vain` remembers manifests that could not be removed. Returns: false when
    /// there is nothing.
    bool remove_one(std::set<std::string>& in_vain);
    /// Erases what all models remember of the agent, on disk too. Blocks. Errors: as
    /// agent_cache_store::erase().
    result<void> erase(const agent_id& id);
    /// Erases what one model, given by its fingerprint, remembers of the agent. Blocks.
    result<void> erase(const agent_id& id, const block_hash& fingerprint);

  private:
    /// Tries to reserve disk bytes and says what is short. `left_free`: the bytes that the file
    /// system had left at the first try; nothing at that try.
    using room_seeker =
        std::function<result<disk_quota::answer>(std::optional<std::uint64_t> left_free)>;
    result<void> make_disk_room(const tenant_id* owner, const room_seeker& ask);
    bool remove_one(std::set<std::string>& in_vain, const tenant_id* owner);
    agent_index::removal choose_removal(const std::set<std::string>& in_vain,
                                        const tenant_id* owner);
    /// The disk as it was before a removal, for note_gain().
    struct disk_moment {
        disk_space space;
        std::uint64_t held_bytes;
        std::uint64_t promised_bytes;  // to others, who may write them meanwhile
    };
    disk_moment look_at_disk(const disk_space& space) const;
    void note_gain(const disk_moment& before, const file_gain& wanted);
    file_gain estimate_gain(const file_gain& enough, const std::set<std::string>& in_vain,
                            const tenant_id* owner) const;
    state_ptr evict_clean(const agent_index::lock& locked, const agent_id* keep);
    std::vector<store_parts*> in_pool(const agent_index::lock& locked) const;
    void report_fate(const agent_id& id, memory_fate fate) const;
    bool remove_foreign(const std::string& manifest);
    foreign_manifest forget_foreign(const std::string& manifest);
    std::vector<std::string> foreign_manifests_of(const std::string& own) const;
    std::vector<store_parts*> others() const;
    result<bool> erase_foreign(const std::string& manifest);
    result<bool> erase_own(const agent_id& id, const std::string& manifest);
    bool remove_agent(const agent_id& id, const std::string& manifest);
    result<void> unlink_manifest(const std::string& relative);
    std::vector<block_hash> take_files(agent_record& agent);

    store_parts& parts_;
};

}  // namespace semantic::storage
