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
    /// Leaves the manifests of this model, as foreign ones, to the stores that stay open.
    ~cache_directory();

    /// Opens the directory for this model and reads what is in it. Blocks. Errors: as
    /// agent_cache_store::open().
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
    /// Replaces what the agent remembers by a memory that another machine saved: `manifest` is its
    /// manifest, `blocks` the source of its files. Blocks. Errors: as agent_cache_store::adopt().
    result<void> adopt(const agent_id& id, const std::string& manifest, const file_source& blocks);
    /// How many attempts to repair a save are left, and what its last attempt lacked.
    struct repairs {
        bool is_over_bound = false;  // nothing helps: a bound on what may be written is reached
        // No lack of disk space was met yet: the first one is answered by simply trying again.
        bool is_first = true;
        int removals = 16;  // of agents, one after the other
        int renewals = 2;   // of directories
        /// Of the last attempt, where it was promised room and met a full file system; nothing:
        /// the budget was in the way, and all that may go had been considered.
        std::optional<evictor::unmet_write> unmet;
    };
    /// Blocks. Tries to remove the cause of a failed save: frees disk space, or creates folders
    /// again that are gone. Each call uses up part of `left`, which bounds how often a save is
    /// repeated. Returns: whether the save may succeed when it is repeated.
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
    /// Opens the directory for the first model: takes the lock, checks the format, reads all
    /// manifests and counts all files. Removes memories while the budget is exceeded.
    result<void> open_first();
    /// Opens a directory that another store of this process has open: reads the manifests of this
    /// model, which the stores kept as foreign ones until now, and makes their agents known to this
    /// index. Holds every manifest's turn meanwhile, so that nobody removes one.
    result<void> take_over();
    /// Moves one manifest from the foreign ones to this index. One that cannot be read stays
    /// foreign, with its blocks, and the agent counts as corrupt. Errors: those that no state of
    /// one file explains.
    result<void> take_over(read_file file);
    /// Adds this model to those that use the directory.
    void join();
    result<void> make_directories();
    result<void> count_others();
    /// Reads the secret from which tenants' ids are made, or makes a new one where there is none.
    result<void> read_secret();
    result<void> read_manifests();
    void read_manifest(read_file& file) const;
    /// Decodes the bytes of a manifest and finds out whose it is and which model can use it. Where
    /// they are no manifest, `file.found` is the error.
    void understand(read_file& file, const result<std::string>& bytes) const;
    static agent_state words_of(const read_file& file);
    /// Returns: which model can use a manifest: the one whose fingerprint both its path and its
    /// contents have; the loaded one only if its tokens give exactly the block names that it lists.
    /// Moves the salt of a private memory from the notes into `file`. Thread: any.
    use use_of(read_file& file) const;
    /// Renames manifests of format 1 to their paths of format 2. An earlier program may have run
    /// here after a later one, so one agent may have both: the newer one stays, the older one is
    /// deleted and leaves `found`.
    result<void> rename_former(std::vector<read_file>& found);
    result<void> index_manifest(read_file file);
    /// Deals with a manifest that could not be decoded. One of a later format, or one that the disk
    /// did not give, stays as a foreign one and counts in the quota. A corrupt one is deleted.
    /// Errors: io, and those that are no fault of the file.
    result<void> index_unreadable(const read_file& file);
    /// Enters a manifest that the loaded model cannot use. A memory of another model stays on disk
    /// and is removed by the same rules as any other; a leftover, which nobody can use, is removed
    /// first when the quota needs bytes.
    void index_foreign(read_file file);
    static agent_record record_of(read_file file);
    void index_agent(read_file file);
    /// Blocks. Fetches from `blocks` the files that `file` names and this directory lacks, several
    /// at once, then writes the manifest. Errors: the first one of a block; out_of_space, io.
    /// Requires: the caller has the manifest's turn and has retained its blocks.
    result<void> take_in(const read_file& file, const std::string& manifest,
                         const file_source& blocks);
    result<void> take_in(const block_hash& name, kv_part part, const file_source& blocks);
    /// Compares the index with the directory after files were removed from outside: forgets files
    /// that are gone, and marks agents dirty that the pool can write again. Saves that are under
    /// way fail and start again.
    void reconcile();

    store_parts& parts_;
    open_directory& home_;
    evictor& room_;
    file_workers fetchers_{fetches_at_once};
};

}  // namespace semantic::storage
