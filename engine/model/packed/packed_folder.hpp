// SPDX-License-Identifier: Apache-2.0
#pragma once
// The folder of packed weights, with an index of known files: the hashes of weight files that have
// not changed since they were hashed, and when each packed file was used last. One process at a
// time writes in the folder (a lock); others read. Its contents can always be made again. Owner:
// the loader, on its stack. Thread: one. Everything here blocks.

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/model/packed/packed_file.hpp"
#include "engine/model/packed/packed_index.hpp"
#include "storage/files/file.hpp"
#include "storage/types/errc.hpp"
#include "storage/types/ids.hpp"

namespace semantic::engine {

struct packed_folder_options {
    std::string directory;           // made if it is missing
    std::uint64_t budget_bytes = 0;  // of all packed files; 0: none is written or used
    bool verify_all = false;         // no hash is taken from the index: all files are read
    /// The hash of a file that was written less than so long ago is not kept: the file might change
    /// again without a change of its time stamp.
    std::chrono::nanoseconds settle_time = std::chrono::seconds(2);
    /// Called with the change of the folder's size in bytes, including a file that is being
    /// written; may be empty.
    std::function<void(std::int64_t)> on_change{};
};

class packed_folder {
  public:
    packed_folder(storage::file_system& files, packed_folder_options options)
        : files_(files), options_(std::move(options)) {}

    bool writes_files() const noexcept { return options_.budget_bytes > 0; }
    bool verifies_all() const noexcept { return options_.verify_all; }
    /// Removes packed files, those used longest ago first, until all fit into the budget and the
    /// file system has enough space. Files that a process has mapped stay.
    void keep_to_budget();
    /// Returns: the hashes of the files, if all of them are unchanged since they were hashed (by
    /// device, inode, size, times and a sample of their bytes); otherwise nothing.
    std::optional<std::vector<storage::block_hash>> find_hashes(
        const std::vector<packed_source>& sources) const;
    /// Keeps the hashes of files in the index. `before`: the files' identities when the hashing
    /// began. Hashes of files that have changed since then, or less than options.settle_time
    /// before, are not kept.
    void keep_hashes(const std::vector<packed_source>& sources,
                     const std::vector<std::optional<storage::file_identity>>& before,
                     const std::vector<storage::block_hash>& hashes);

    /// Opens the packed file of these weights and checks a sample of it; all of it if the index
    /// does not know the file, or if options.verify_all. Errors: not_found; corrupt, io: the file
    /// cannot be used.
    storage::result<packed_file> open(const packed_contents& contents);
    /// Removes the packed file of these weights. If a process has it mapped, its space is freed
    /// when that ends.
    void remove(const storage::block_hash& weights);

    /// A packed file that is being written. The destructor removes it unless it is finished.
    class draft {
      public:
        /// `told_bytes`: the size that is reported for the folder when the draft is complete.
        draft(packed_folder& folder, std::unique_ptr<storage::directory_lock> lock,
              std::unique_ptr<storage::writable_file> file, std::uint64_t told_bytes);
        draft(const draft&) = delete;
        draft& operator=(const draft&) = delete;
        ~draft();
        packed_writer& writer() noexcept { return writer_; }
        /// Completes the file durably, renames it to its final name and opens it. Errors: io,
        /// out_of_space.
        storage::result<packed_file> finish(const packed_contents& contents);

      private:
        packed_folder& folder_;
        std::unique_ptr<storage::directory_lock> lock_;
        packed_writer writer_;
        const std::uint64_t told_bytes_;
        bool is_finished_ = false;
    };
    /// Begins to write packed weights; if they exceed the budget, first removes packed files that
    /// were used longest ago and that no process has mapped. Errors: out_of_space if that would not
    /// be enough (then nothing is removed); locked if another process writes; io.
    storage::result<std::unique_ptr<draft>> begin(std::uint64_t arena_bytes);

  private:
    std::string path_of(const std::string& name) const { return options_.directory + "/" + name; }
    storage::result<void> make_room(std::uint64_t wanted);
    void change_index(const std::function<void(packed_index&)>& change, bool is_locked);
    std::uint64_t bytes() const;
    void tell_change(std::uint64_t before, std::uint64_t now) const;

    storage::file_system& files_;
    const packed_folder_options options_;
};

}  // namespace semantic::engine
