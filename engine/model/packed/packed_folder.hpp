// SPDX-License-Identifier: Apache-2.0
#pragma once
// The folder of packed weights, and what is known of the files that weights come from: which hash a
// file has that is as it was, and which packed file was used last. One process at a time writes in
// it (a lock); others read. What is in it can always be made again. Owner: the loader, on its
// stack. Thread: one. Everything here blocks.

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
    std::string directory;           // made where it is missing
    std::uint64_t budget_bytes = 0;  // of all packed files in it; 0: none is written or used
    bool verify_all = false;         // nothing is known of a file that is not read
    /// A file that was written less than so long ago may be written again without another time.
    std::chrono::nanoseconds settle_time = std::chrono::seconds(2);
    /// Gets by how many bytes what is in the folder, or is about to be, has changed; may be empty.
    std::function<void(std::int64_t)> on_change{};
};

class packed_folder {
  public:
    packed_folder(storage::file_system& files, packed_folder_options options)
        : files_(files), options_(std::move(options)) {}

    bool writes_files() const noexcept { return options_.budget_bytes > 0; }
    bool verifies_all() const noexcept { return options_.verify_all; }
    /// Removes what was used longest ago and is not held, where all files together are beyond the
    /// budget, which may have become smaller, or the file system has too little left.
    void keep_to_budget();
    /// Returns: the hashes of the files, where each is the one that was hashed before by device,
    /// inode, size, times and a sample of its bytes.
    std::optional<std::vector<storage::block_hash>> find_hashes(
        const std::vector<packed_source>& sources) const;
    /// Keeps what was hashed. `before`: the files' identities when the hashing began; a file that
    /// has changed since, or less than options.settle_time before, is not kept.
    void keep_hashes(const std::vector<packed_source>& sources,
                     const std::vector<std::optional<storage::file_identity>>& before,
                     const std::vector<storage::block_hash>& hashes);

    /// Opens and checks the packed file of these weights: a sample, or all where it is not the file
    /// that was written here, or options.verify_all says so. Errors: not_found; corrupt, io: it is
    /// of no use.
    storage::result<packed_file> open(const packed_contents& contents);
    /// Removes the packed file of these weights. One that is held goes when it is let go.
    void remove(const storage::block_hash& weights);

    /// A packed file on its way. Removes it when destroyed before it is finished.
    class draft {
      public:
        /// `told_bytes`: the size that is reported for the folder when the draft is complete.
        draft(packed_folder& folder, std::unique_ptr<storage::directory_lock> lock,
              std::unique_ptr<storage::writable_file> file, std::uint64_t told_bytes);
        draft(const draft&) = delete;
        draft& operator=(const draft&) = delete;
        ~draft();
        packed_writer& writer() noexcept { return writer_; }
        /// Puts the file into its place, whole and lasting, and opens it. Errors: io, out_of_space.
        storage::result<packed_file> finish(const packed_contents& contents);

      private:
        packed_folder& folder_;
        std::unique_ptr<storage::directory_lock> lock_;
        packed_writer writer_;
        const std::uint64_t told_bytes_;
        bool is_finished_ = false;
    };
    /// Makes room for the packed weights, by removing what was used longest ago and is not held,
    /// and begins to write them. Errors: out_of_space, with both numbers: what may go would not do,
    /// and nothing went; locked: another process writes; io.
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
