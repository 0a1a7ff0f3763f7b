// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which file a path leads to, and whether it is as it was: what the file system says of it, without
// reading it. Thread: any. Everything here blocks.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "storage/types/errc.hpp"

namespace semantic::storage {

struct file_identity {
    std::uint64_t device = 0;
    std::uint64_t inode = 0;
    std::uint64_t bytes = 0;
    std::int64_t modified_ns = 0;  // since 1970
    std::int64_t changed_ns = 0;   // of the inode: a time that no program can set back
    bool operator==(const file_identity&) const = default;
};

/// Follows symbolic links. Returns: nothing where there is no regular file.
std::optional<file_identity> identity_of(const std::string& path);

/// A file that is kept open under a shared lock, so that other processes can see with is_held()
/// that it is in use.
class held_file {
  public:
    held_file() = default;
    held_file(held_file&& from) noexcept
        : descriptor_(std::exchange(from.descriptor_, -1)), identity_(from.identity_) {}
    held_file& operator=(held_file&& from) noexcept {
        std::swap(descriptor_, from.descriptor_);
        std::swap(identity_, from.identity_);
        return *this;
    }
    ~held_file();
    /// Returns: nothing where there is no regular file that can be read.
    static std::optional<held_file> open(const std::string& path);

    const file_identity& identity() const noexcept { return identity_; }
    /// Fills `buffer` from `offset`. Safe from several threads at once. Errors: io, also where the
    /// file ends before that.
    result<void> read_at(std::uint64_t offset, std::span<std::byte> buffer) const;

  private:
    int descriptor_ = -1;  // with a shared flock
    file_identity identity_;
};

/// Returns: whether some process has the file open as a held_file. False where the file system has
/// no locks.
bool is_held(const std::string& path);

}  // namespace semantic::storage
