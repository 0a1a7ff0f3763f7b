// SPDX-License-Identifier: Apache-2.0
#pragma once
// The directory of a store: taking it and reading what is in it, and keeping it when somebody takes
// files, or all of it, away while the store is open. The first store that opens a directory reads
// what is in it; another model's takes over what that one has found of its own. Owner:
// agent_cache_store. Thread: open() runs once, before anything else; the rest is safe from any. All
// of it blocks.

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "storage/agents/evictor.hpp"
#include "storage/agents/store_parts.hpp"
#include "storage/disk/manifest.hpp"

namespace semantic::storage {

/// From the operating system's generator.
std::string random_bytes(std::size_t count);

class cache_directory {
  public:
    cache_directory(store_parts& parts, evictor& room)
        : parts_(parts), home_(*parts.home), room_(room) {}
    /// Leaves what is on disk to the stores that stay.
    ~cache_directory();

    /// Blocks. As agent_cache_store::open().
    result<void> open();
    /// Returns: 32 bytes; from open() on they stay as they are.
    const std::string& secret() const noexcept { return home_.secret; }

    /// Blocks. Looks whether the directory is there, and the files that the index says an agent
    /// has. Creates the directory again where it is gone; agents whose files are gone and can be
    /// written again are dirty from now on. Errors: locked; io, also where another cache directory
    /// has its name.
    result<void> check(const agent_id& id, const std::string& manifest);
    /// Blocks. Creates the directory again where it is gone, and locks it before another process
    /// does. Errors: as check().
    result<void> keep();
    /// Blocks. As agent_cache_store::adopt().
    result<void> adopt(const agent_id& id, const std::string& manifest, const file_source& blocks);
    /// What may still be done for a save that fails.
    struct repairs {
        bool is_over_bound = false;  // nothing helps: a bound on what may be written is reached
        bool is_first = true;
        int removals = 16;  // of agents, one after the other
        int renewals = 2;   // of directories
        /// Of the last attempt, where it was promised room and met a full file system; nothing:
        /// the budget was in the way, and all that may go had been considered.
        std::optional<evictor::unmet_write> unmet;
    };
    /// Blocks. Returns: whether a save that failed so may go well when it is repeated.
    bool repair(const failure& fault, repairs& left);

  private:
    static constexpr std::size_t fetches_at_once = 8;  // of block files that another machine has
    /// Who can use a manifest.
    enum class use { loaded_model, other_model, nobody };
    /// A manifest as it was read, before the index knows of it.
    struct read_file {
        std::string relative;  // its path, or the one that it is to get
        std::uint64_t bytes = 0;
        result<decoded_manifest> found = failure{errc::not_found, {}};
        std::vector<block_hash> names{};       // of blocks that it lists
        std::vector<block_hash> kept_names{};  // of recurrent states
        std::size_t tokens = 0;
        std::optional<agent_id> id{};  // whose it is
        block_hash private_salt{};     // as in agent_state
        use by = use::nobody;
        std::string former{};  // its path, where that is one of format 1; else empty
    };
    result<void> open_first();
    result<void> take_over();
    result<void> take_over(read_file file);
    void join();
    result<void> make_directories();
    result<void> count_others();
    result<void> read_secret();
    result<void> read_manifests();
    void read_manifest(read_file& file) const;
    void understand(read_file& file, const result<std::string>& bytes) const;
    static agent_state words_of(const read_file& file);
    use use_of(read_file& file) const;
    result<void> rename_former(std::vector<read_file>& found);
    result<void> index_manifest(read_file file);
    result<void> index_unreadable(const read_file& file);
    void index_foreign(read_file file);
    static agent_record record_of(read_file file);
    void index_agent(read_file file);
    result<void> take_in(const read_file& file, const std::string& manifest,
                         const file_source& blocks);
    result<void> take_in(const block_hash& name, kv_part part, const file_source& blocks);
    void reconcile();

    store_parts& parts_;
    open_directory& home_;
    evictor& room_;
    file_workers fetchers_{fetches_at_once};
};

}  // namespace semantic::storage
