#pragma once
// Makes room: in the pool by letting go of blocks, in the directory by removing files. What goes
// first is the index's decision (tier_policy), over all models that are loaded. Owner:
// agent_cache_store. Thread: safe from any; those marked "Blocks." do file I/O, without a lock.

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "storage/agents/store_parts.hpp"

namespace semantic::storage {

class evictor {
  public:
    explicit evictor(store_parts& parts) : parts_(parts) {}

    /// As agent_cache_store::make_room().
    bool free_frames(std::size_t frames, const agent_id* keep);
    /// Makes room for blocks that are read of an agent; its own, which may be of another branch of
    /// its conversation, are evicted last.
    bool free_frames_for(const agent_id& id, std::size_t frames);
    /// As agent_cache_store::evict().
    bool evict(const agent_id& id);

    /// Blocks. Returns: room for `bytes` more, after removing what had to go. Errors: out_of_space
    /// when nothing more may be removed, io.
    result<disk_quota::promise> free_disk(std::uint64_t bytes);
    /// Blocks. Removes what is needed least: a leftover, files that nobody needs, a memory of
    /// whatever model. `in_vain` remembers manifests that could not be removed. Returns: false when
    /// there is nothing.
    bool remove_one(std::set<std::string>& in_vain);
    /// Blocks. As agent_cache_store::erase().
    result<void> erase(const agent_id& id);
    result<void> erase(const agent_id& id, const block_hash& fingerprint);

  private:
    state_ptr evict_clean(const agent_index::lock& locked, const agent_id* keep);
    std::vector<store_parts*> in_pool(const agent_index::lock& locked) const;
    void tell(const agent_id& id, memory_fate fate) const;
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
