// SPDX-License-Identifier: Apache-2.0
#pragma once
// The block files of one cache directory: which exist, how many manifests need each block, which
// are still to be made lasting. A block's files, one for each part, are needed and deleted
// together. Recurrent states, whose names are their own, are kept as blocks are. They may be of
// several models, whose formats differ. Owner: open_directory. Thread: every method is safe from
// any thread; those marked "Blocks." do I/O outside the mutex. A file is written, and deleted, by
// one thread at a time; a file that some manifest needs is never deleted.

#include <array>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "storage/disk/block_file.hpp"
#include "storage/disk/disk_quota.hpp"
#include "storage/disk/state_file.hpp"
#include "storage/files/file.hpp"
#include "storage/files/parallel.hpp"
#include "storage/pool/block_pool.hpp"
#include "storage/types/ids.hpp"
#include "storage/types/kv_event_feed.hpp"
#include "storage/types/probe.hpp"

namespace semantic::storage {

/// The file formats of one model's blocks, by part.
class block_formats {
  public:
    explicit block_formats(const kv_layout& layout)
        : formats_{block_format(layout, kv_parts[0]), block_format(layout, kv_parts[1])} {}
    const block_format& format_for(kv_part part) const {
        return formats_[static_cast<std::size_t>(part)];
    }

  private:
    std::array<block_format, kv_parts.size()> formats_;
};

/// Bytes and files (inodes) that removals free.
struct file_gain {
    std::uint64_t bytes = 0;
    std::uint64_t files = 0;
    bool covers(const file_gain& wanted) const noexcept {
        return bytes >= wanted.bytes && files >= wanted.files;
    }
};

class block_files {
    struct file_state {
        std::uint64_t bytes = 0;
        bool lasting = false;  // its directory was synced since it was made
        // Not known to be damaged.
        bool good = true;
        bool operator==(const file_state&) const = default;
    };
    using block_state = std::array<std::optional<file_state>, block_file_parts.size()>;

  public:
    /// `events`: is notified of blocks that leave the disk; may be null.
    block_files(file_system& files, std::string directory, disk_quota& quota, store_probe& probe,
                std::shared_ptr<kv_event_feed> events = nullptr);

    /// Blocks. Lists the folder "blocks" when the directory is opened: deletes temporary files and,
    /// unless `keep_orphans`, block files that nothing has retained; counts all others. Calls
    /// `meanwhile` once, on any thread, while it scans. Errors: io.
    result<void> scan(bool keep_orphans, file_workers& workers,
                      const std::function<void()>& meanwhile);

    /// Reserves the tables for about so many blocks, so that they do not grow one by one.
    void expect(std::size_t blocks);
    /// Counts one more manifest that needs each of these blocks, whether their files exist yet or
    /// not.
    void retain(std::span<const block_hash> names);
    /// Blocks. Counts one manifest less for each of these blocks, and deletes the files of those
    /// that nobody needs any more. A file that cannot be deleted stays for remove_unneeded() and
    /// scan().
    void release(std::span<const block_hash> names);
    /// Releases those of `names` for which no file has to be deleted, because somebody else retains
    /// them or they have no file; the others stay in `names` and are still to be released.
    void release_shared(std::vector<block_hash>& names);
    /// Blocks. Deletes the files of blocks that nobody needs: kept orphans, and those that could
    /// not be deleted before. Returns: how many blocks are gone.
    std::size_t remove_unneeded();

    /// Blocks. Writes the file of block.part() unless it is there and good. Returns: bytes written.
    /// Errors: io, out_of_space. Requires: the name is retained.
    result<std::uint64_t> ensure(const block_hash& name, const block_identity& identity,
                                 const block_formats& formats, const kv_block& block);
    /// Blocks. Writes the file of the recurrent state after a text's last token, which `identity`
    /// ends with, unless it is there and good. Returns, errors, requires: as ensure().
    result<std::uint64_t> ensure_state(const block_hash& name, const block_identity& identity,
                                       const recurrent_state& state);
    /// Blocks. Writes `bytes` as the file of a block part, unless it exists and is good. It is
    /// lasting when this returns. The contents are checked only when the file is opened. Returns:
    /// bytes written. Errors: io, out_of_space. Requires: the name is retained.
    result<std::uint64_t> take_in(const block_hash& name, kv_part part, std::string_view bytes);
    /// Blocks. Syncs the directories of those files that are not lasting yet, each once. Errors:
    /// io.
    result<void> make_lasting(std::span<const block_hash> names);

    /// Blocks. Opens the file of a block part, checks its header and takes frames for it. Errors:
    /// those of block_file_reader::open().
    result<block_file_reader> open(const block_hash& name, kv_part part,
                                   const block_identity& expected, const block_formats& formats,
                                   block_pool& pool, bool keep_open);
    /// Blocks. Checks that the files which these blocks are known to have exist, and forgets those
    /// that were removed from outside. Returns: how many those are.
    std::size_t forget_missing(std::span<const block_hash> names);
    /// Blocks. The same for all files; folders are created again when something is written.
    std::size_t forget_missing();
    /// Notes that the file's contents are wrong: it is not read again, and the next ensure()
    /// replaces it.
    void distrust(const block_hash& name, kv_part part);

    /// Whether the file exists, good or damaged.
    bool is_known(const block_hash& name, kv_part part) const;
    /// Whether the file exists and is not known to be damaged.
    bool is_good(const block_hash& name, kv_part part) const;
    /// Sums the files that would be deleted if some manifests released their blocks. Holds the
    /// mutex of block_files as long as it lives, so nothing changes meanwhile. Thread: one.
    class gain_estimate {
      public:
        explicit gain_estimate(const block_files& files);
        /// Adds the blocks of one manifest. A block counts once all that retain it were added.
        void add(std::span<const block_hash> names);
        /// Adds the files that no manifest retains now; looks at all files. At most once.
        void add_unneeded();
        const file_gain& sum() const noexcept { return sum_; }

      private:
        /// Adds the files of a block to the sum.
        void count(const block_state& parts);
        const block_files& files_;
        const std::lock_guard<std::mutex> held_;
        std::unordered_map<block_hash, int> let_go_;  // of those that several retain
        file_gain sum_;
    };
    /// Blocks. Removes folders without a block, each of which takes an inode. Returns: how many.
    std::size_t remove_empty_directories();
    /// Returns: the bytes of all files of these blocks.
    std::uint64_t bytes_on_disk(std::span<const block_hash> names) const;
    /// Returns: the bytes of the files of one part of these blocks.
    std::uint64_t bytes_on_disk(std::span<const block_hash> names, kv_part part) const;

  private:
    result<void> scan_directory(const std::string& directory, bool keep_orphans);
    bool remove_if_unneeded(const block_hash& name, std::unique_lock<std::mutex>& lock);
    void tell_removed(const block_hash& name);
    /// Writes a file of at most `bytes_max` bytes to the path that it is given.
    using file_writer = std::function<result<std::uint64_t>(const std::string& path)>;
    /// Blocks. Writes the file with `write_to` unless it exists and is good. Returns: bytes
    /// written.
    result<std::uint64_t> ensure(const block_hash& name, kv_part part, std::uint64_t bytes_max,
                                 const file_writer& write_to);
    result<std::uint64_t> write(const block_hash& name, kv_part part, std::uint64_t bytes_max,
                                const file_writer& write_to);
    result<void> make_fan_out(const std::string& directory);
    const file_state* find(const block_hash& name, kv_part part) const;
    file_state* find(const block_hash& name, kv_part part) {
        return const_cast<file_state*>(std::as_const(*this).find(name, part));
    }
    std::string path(const block_hash& name, kv_part part) const {
        return directory_ + "/" + block_path(name, part);
    }

    file_system& files_;
    const std::string directory_;
    disk_quota& quota_;
    store_probe& probe_;
    const std::shared_ptr<kv_event_feed> events_;
    // Guards everything below. `idle_` is notified when a name leaves `busy_`. `known_` has the
    // files of each block. `needed_by_` counts how often a block is retained; without an entry:
    // never. `fan_outs_` are the folders "blocks/ab" that exist.
    mutable std::mutex mutex_;
    std::condition_variable idle_;
    std::unordered_map<block_hash, block_state> known_;
    std::unordered_map<block_hash, int> needed_by_;
    std::set<block_hash> busy_;  // being written or deleted
    std::set<std::string> fan_outs_;
};

}  // namespace semantic::storage
