// SPDX-License-Identifier: Apache-2.0
#pragma once
// The real file system below one directory, with trouble on order: an operation that fails, a write
// that stops half way, a power cut that takes what was not synced. It keeps a model of what would
// survive and, after a cut, makes the directory equal to it. Thread: safe from any thread; the
// order of operations is the order in which they come.

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

/// What a power cut takes of that which was not synced.
enum class lost { everything, nothing, at_random };

class fault_file_system final : public storage::file_system {
  public:
    /// Takes what is below `root` now as lasting.
    explicit fault_file_system(std::string root);

    /// Orders trouble for the n-th changing operation from now on, counted from 1.
    void fail_at(int n, fault kind);
    /// Orders that reading the n-th file from now on, counted from 1, fails with EIO.
    void fail_read_at(int n);
    /// From now on every changing operation fails, as on a file system that is mounted read-only.
    void set_read_only(bool read_only);
    /// Files that were opened to be read, since reset().
    std::vector<std::string> opened() const;
    /// What space() returns from now on, whatever the disk really has.
    void set_space(storage::disk_space space);
    /// From now on a new file is refused for want of space where there are `count` already, as
    /// where no inodes are left; none: no bound.
    void set_files_max(std::optional<std::size_t> count);
    /// From now on every write says that the file system is full, whatever space() returns.
    void set_full(bool full);
    /// From now on a write that makes all files together larger than `bytes` meets a quota of the
    /// user, which space() does not show; none: no bound. `keeps_removed`: what is removed counts
    /// on, as where snapshots keep it.
    void set_user_quota(std::optional<std::uint64_t> bytes, bool keeps_removed = false);
    /// From now on space() returns what a file system of so many bytes has left, whatever the disk
    /// really has. `keeps_removed`: as above.
    void set_capacity(std::uint64_t bytes, bool keeps_removed = false,
                      std::uint64_t bytes_of_others = 0);
    /// Changing operations since the last fail_at() or reset().
    int operations() const;
    void reset();
    bool has_fired() const;
    /// From now on link() fails, as on a file system without second names.
    void refuse_links();
    /// From now on exists() says no of everything, as a network file system's client may whose
    /// memory of a directory is old.
    void forget_names();
    /// Calls `hook` with the path before each removal, on the thread that removes, which it may
    /// hold up. Requires: nobody removes anything now.
    void before_unlink(std::function<void(const std::string&)> hook);
    /// Calls `hook` with the path and the offset before each read, on the thread that reads, which
    /// it may hold up. Requires: nobody reads anything now.
    void before_read(std::function<void(const std::string&, std::uint64_t)> hook);
    /// Ends a power cut: the directory then holds what survived.
    void restart(lost losses, unsigned seed = 1);
    /// Every changing operation as "create path", for tests of order and amount.
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
    struct node {
        std::string live;    // contents as a reader sees them
        std::string synced;  // contents that a cut leaves
    };
    using entries = std::map<std::string, std::shared_ptr<node>>;

    /// Counts one changing operation. Returns: the trouble that was ordered for it.
    std::optional<fault> next(const std::string& operation);
    storage::result<void> change(const std::string& operation);
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
    entries lasting_;  // as a cut leaves it
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
    std::uint64_t removed_bytes_ = 0;  // that count on
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
