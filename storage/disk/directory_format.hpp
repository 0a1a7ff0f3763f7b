// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which version of FORMAT.md a cache directory is of: the mark that says it, and manifests of the
// version before that get their new names. Stateless. Thread: one at a time, with the directory's
// lock. All of it blocks.

#include <span>
#include <string>

#include "storage/files/file.hpp"
#include "storage/types/errc.hpp"

namespace semantic::storage {

/// Version 1, which has no mark, knew one manifest an agent, whatever its model.
constexpr int directory_format_version = 2;

/// Blocks. Writes this version into the directory's mark, unless it is there. Errors: incompatible,
/// naming both versions, where a later program has made the directory, in which nothing may be
/// changed then; io, out_of_space.
result<void> adopt_directory_format(file_system& files, const std::string& directory);

/// A manifest that gets another name. Paths are relative to the cache directory.
struct manifest_renaming {
    std::string from, to;
    enum class former {
        none,   // nothing is called `to`
        older,  // the manifest at `to` is replaced
        newer,  // the manifest at `to` stays, and `from` is deleted
    } there = former::none;
};

/// Blocks. Renames all of them. Each manifest has one of its names at every moment, also after a
/// crash; the next opening finishes what a crash interrupted. Errors: io, out_of_space.
result<void> rename_manifests(file_system& files, const std::string& directory,
                              std::span<const manifest_renaming> renamings);

}  // namespace semantic::storage
