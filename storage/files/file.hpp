// SPDX-License-Identifier: Apache-2.0
#pragma once
// The file system as storage uses it: the one interface that file operations go through, so that
// tests can make them fail. Thread: posix_file_system() is safe from any thread, and so are the
// files that it opens to be read; one that is written belongs to one thread at a time. Every method
// blocks. Files are made 0600, directories 0700. Errors: not_found, io, out_of_space (ENOSPC,
// EDQUOT); each names the path.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "storage/types/errc.hpp"

namespace semantic::storage {

/// An open file that can be read. Closes itself.
class readable_file {
  public:
    virtual ~readable_file() = default;
    virtual result<std::uint64_t> size() = 0;
    /// Fills all of `buffer` with the bytes from `offset` on. Errors: corrupt when the file ends
    /// before that.
    virtual result<void> read_at(std::uint64_t offset, std::span<std::byte> buffer) = 0;
};

/// A file that is being written, from its start, in order. Closes itself; only sync() makes the
/// bytes last.
class writable_file {
  public:
    virtual ~writable_file() = default;
    virtual result<void> write(std::span<const std::byte> bytes) = 0;
    virtual result<void> sync() = 0;
};

/// A lock on a directory. Destroying it, or the death of the process, releases the lock.
class directory_lock {
  public:
    virtual ~directory_lock() = default;
    /// Blocks. Whether the path still leads to the directory that was locked: false when it was
    /// removed, or replaced by another one.
    virtual bool is_in_place() const = 0;
};

struct directory_entry {
    std::string name;
    bool is_directory = false;
    std::uint64_t bytes = 0;
};

struct disk_space {
    std::uint64_t total_bytes = 0;
    std::uint64_t free_bytes = 0;   // what an ordinary user may still write
    std::uint64_t total_files = 0;  // inodes; 0: the file system does not count them
    std::uint64_t free_files = 0;
    /// How often a write has met EDQUOT since the program began: a quota of the user, which the
    /// figures above do not show.
    std::uint64_t quota_refusals = 0;
};

class file_system {
  public:
    virtual ~file_system() = default;
    virtual result<std::unique_ptr<readable_file>> open(const std::string& path) = 0;
    /// Makes an empty file, or empties the one that is there.
    virtual result<std::unique_ptr<writable_file>> create(const std::string& path) = 0;
    /// Opens an existing file to write after its end.
    virtual result<std::unique_ptr<writable_file>> append(const std::string& path) = 0;
    /// Replaces `to` by `from` atomically. Survives a crash once the directory is synced.
    virtual result<void> rename(const std::string& from, const std::string& to) = 0;
    /// Gives a file a second name atomically. Survives a crash once the directory is synced.
    /// Errors: bad_value where `to` exists; io, also where the file system has no hard links.
    virtual result<void> link(const std::string& from, const std::string& to) = 0;
    virtual result<void> unlink(const std::string& path) = 0;
    /// Makes all earlier creates, renames, links and unlinks in the directory survive a crash.
    virtual result<void> sync_directory(const std::string& path) = 0;
    /// Creates the directory and its missing parents, and syncs the parent of each. An existing one
    /// is no error.
    virtual result<void> make_directory(const std::string& path) = 0;
    /// Removes an empty directory. Errors: io, also where something is in it.
    virtual result<void> remove_directory(const std::string& path) = 0;
    /// Returns: regular files and directories, sorted by name; no "." and "..".
    virtual result<std::vector<directory_entry>> list(const std::string& path) = 0;
    /// Returns: whether there is anything of that name. Errors: io.
    virtual result<bool> exists(const std::string& path) = 0;
    /// Locks the directory, and the file `lock` in it, for this process. Does not wait. Errors:
    /// locked, naming the directory, when another process holds it.
    virtual result<std::unique_ptr<directory_lock>> lock(const std::string& directory) = 0;
    /// Returns: the free and total space of the file system that has `path`.
    virtual result<disk_space> space(const std::string& path) = 0;
};

/// The file system of the operating system. Lives as long as the program.
file_system& posix_file_system();

/// Blocks. Returns: the whole file. Errors: those of open and read, and corrupt when it is larger
/// than `bytes_max`.
result<std::string> read_whole(file_system& files, const std::string& path,
                               std::uint64_t bytes_max);

/// Blocks. Returns: the bytes of all regular files in the directory and below. Errors: those of
/// list.
result<std::uint64_t> bytes_below(file_system& files, const std::string& directory);

/// Blocks. Replaces a file by a new version, or creates it: writes a temporary file, syncs it,
/// renames it, syncs the directory. A crash leaves the old or the new version, whole. Errors: io,
/// out_of_space; then the old version is still there, or, when only the last step failed, one of
/// the two.
result<void> replace_file(file_system& files, const std::string& path, std::string_view bytes);

}  // namespace semantic::storage
