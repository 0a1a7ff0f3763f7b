// SPDX-License-Identifier: Apache-2.0
#pragma once
// Objects as files of a directory, which may be a network file system's (NFS 4, CephFS) that
// several machines have mounted. storage/FORMAT.md §12 has the bytes.
// A write goes to a temporary file, is synced, and is renamed into its place under a file lock of
// the kernel's, which the death of its holder lets go of; a file system without such locks fails
// every write with io. Readers take no lock. Owner: open_object_store's caller.

#include <chrono>
#include <memory>
#include <string>

#include "storage/files/file.hpp"
#include "storage/objects/object_store.hpp"

namespace semantic::storage {

struct directory_objects_options {
    std::chrono::milliseconds lock_wait_max{10'000};  // then put() and remove() are unavailable
    std::int64_t now_seconds = 0;                     // since 1970; 0: the system's clock
};

/// A temporary file older than this belongs to a writer that died, and is removed at an opening.
inline constexpr std::int64_t temporary_seconds_max = 24 * 60 * 60;

/// Blocks. Opens the store and creates what is missing inside `directory`. The directory itself
/// must exist: a path where nothing is mounted must be noticed. Removes temporary files that are
/// older than a day. Errors: not_found, io.
object_result<std::unique_ptr<object_store>> open_directory_objects(
    file_system& files, const std::string& directory,
    const directory_objects_options& options = {});

}  // namespace semantic::storage
