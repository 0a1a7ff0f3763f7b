// SPDX-License-Identifier: Apache-2.0
#pragma once
// The real file system below one directory, which makes trouble on request: an operation that
// fails, a write that stops half way, a power cut that loses what was not synced. It keeps a model
// of what would survive and, after a cut, makes the directory equal to it. Thread: any; the order
// of operations is the order in which they come.

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "storage/files/file.hpp"

namespace semantic::tests {

enum class fault {
    io_error,    // the operation fails with EIO, nothing happens
    no_space,    // ENOSPC; a write leaves its first half
    torn_write,  // a write leaves its first half and fails with EIO; other operations fail
                 // with EIO
    power_cut,   // this operation and every later one fail, until restart()
};

/// How much of what was not synced a power cut loses.
enum class lost { everything, nothing, at_random };

class fault_file_system final : public storage::file_system {
  public:
    /// What is below `root` now survives cuts.
    explicit fault_file_system(std::string root);

    /// Makes the n-th changing operation from now on, counted from 1, fail in this way.
    void fail_at(int n, fault kind);
    /// Makes the n-th read of a file from now on, counted from 1, fail with EIO.
    void fail_read_at(int n);
    /// From now on every changing operation fails, as on a file system that is mounted read-only.
    void set_read_only(bool read_only);
    /// The paths that were opened for reading since reset().
    std::vector<std::string> opened() const;
    /// Sets what space() returns, whatever the disk really has.
    void set_space(storage::disk_space space);
    /// Makes new files fail for want of space when there are `count` files, as where no inodes are
    /// left; nothing: no bound.
    void set_files_max(std::optional<std::size_t> count);
    /// Whether every write fails for want of space, whatever space() returns.
    void set_full(bool full);
    /// Makes writes fail that would make all files together larger than `bytes`: a quota that
    /// space() does not show; nothing: no bound. `keeps_removed`: removed files still count, as
    /// where snapshots keep them.
    void set_user_quota(std::optional<std::uint64_t> bytes, bool keeps_removed = false);
    /// Makes space() show a file system of `bytes` bytes, of which `bytes_of_others` are taken by
    /// others. `keeps_removed`: as for set_user_quota().
    void set_capacity(std::uint64_t bytes, bool keeps_removed = false,
                      std::uint64_t bytes_of_others = 0);
    /// The number of changing operations since the last fail_at() or reset().
    int operations() const;
    /// Clears counts, logs and requested failures.
    void reset();
    /// Whether the failure of fail_at() has happened.
    bool has_fired() const;
    /// Makes link() fail, as on a file system without hard links.
    void refuse_links();
    /// Makes exists() return false for everything, as a network file system with a stale view of a
    /// directory may.
    void forget_names();
    /// Calls `hook` with the path before each removal, on the removing thread, which it may block.
    /// Requires: nobody removes anything now.
    void before_unlink(std::function<void(const std::string&)> hook);
    /// Calls `hook` with the path and the offset before each read, on the reading thread, which it
    /// may block. Requires: nobody reads anything now.
    void before_read(std::function<void(const std::string&, std::uint64_t)> hook);
    /// Ends a power cut: the directory then holds what survived.
    void restart(lost losses, unsigned seed = 1);
    /// All changing operations since reset(), such as "create PATH", for tests of their order and
    /// number.
    std::vector<std::string> log() const;
    /// Bytes of all writes that succeeded since reset().
    std::uint64_t bytes_written() const;

    storage::result<std::unique_ptr<storage::readable_file>> open(const std::string& path) override;
    storage::result<std::unique_ptr<storage::writable_file>> create(
        const std::string& path) override;
    storage::result<std::unique_ptr<storage::writable_file>> append(
        const std::string& path) override;
    storage::result<void> rename(const std::string& from, const std::string& to) override;
    storage::result<void> link(const std::string& from, const std::string& to) override;
    storage::result<void> unlink(const std::string& path) override;
    storage::result<void> sync_directory(const std::string& path) override;
    storage::result<void> make_directory(const std::string& path) override;
    storage::result<void> remove_directory(const std::string& path) override;
    storage::result<std::vector<storage::directory_entry>> list(const std::string& path) override;
    storage::result<bool> exists(const std::string& path) override;
    storage::result<std::unique_ptr<storage::directory_lock>> lock(
        const std::string& directory) override;
    storage::result<storage::disk_space> space(const std::string& path) override;

  private:
    class faulty_writable;
    class faulty_readable;
    /// The contents of one file.
    struct node {
        std::string live;    // contents as a reader sees them
        std::string synced;  // contents that survive a cut
    };
    using entries = std::map<std::string, std::shared_ptr<node>>;

    /// Logs and counts one changing operation. Returns: the failure that was requested for it.
    std::optional<fault> next(const std::string& operation);
    /// Logs and counts one changing operation that cannot be half done. Errors: where it is to
    /// fail. Requires: the mutex is held.
    storage::result<void> change(const std::string& operation);
    /// The error of an operation that fails on request.
    storage::failure down(const std::string& operation) const;
    storage::result<void> write(storage::writable_file& file, const std::string& path,
                                const std::shared_ptr<node>& content,
                                std::span<const std::byte> bytes);
    storage::result<void> sync(storage::writable_file& file, const std::string& path,
                               const std::shared_ptr<node>& content);
    storage::result<void> read(const std::string& path, std::uint64_t offset);
    std::uint64_t used_bytes() const;

    const std::string root_;
    storage::file_system& real_ = storage::posix_file_system();
    mutable std::mutex mutex_;
    entries live_;     // path to file, as a reader sees it
    entries lasting_;  // the names that survive a cut
    std::vector<std::string> log_;
    std::uint64_t bytes_written_ = 0;
    int count_ = 0;
    int fail_at_ = 0;
    int reads_ = 0;
    int fail_read_at_ = 0;
    fault kind_ = fault::io_error;
    std::optional<storage::disk_space> space_;
    std::optional<std::size_t> files_max_;
    std::optional<std::uint64_t> user_quota_;
    std::optional<std::uint64_t> capacity_;
    std::uint64_t bytes_of_others_ = 0;
    std::uint64_t removed_bytes_ = 0;  // of removed files that still count
    std::uint64_t quota_refusals_ = 0;
    bool keeps_removed_ = false;
    bool is_full_ = false;
    std::vector<std::string> opened_;
    std::function<void(const std::string&)> before_unlink_;
    std::function<void(const std::string&, std::uint64_t)> before_read_;
    bool read_only_ = false;
    bool refuses_links_ = false;
    bool forgets_names_ = false;
    bool fired_ = false;
    bool down_ = false;
};

}  // namespace semantic::tests
