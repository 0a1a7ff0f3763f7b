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

/// Blocks. Marks the directory as one of this version where it is not. Errors: incompatible, naming
/// both versions, where a later program has made it: nothing in it may be touched then; io,
/// out_of_space.
result<void> adopt_directory_format(file_system& files, const std::string& directory);

/// A manifest whose name is to change. Paths below the directory.
struct manifest_renaming {
    std::string from, to;
    enum class former {
        none,   // nothing is called `to`
        older,  // what is called so gives way
        newer,  // what is called so stays, and `from` goes
    } there = former::none;
};

/// Blocks. Does all of them, each whole or not at all; at no moment, and after no crash, is a
/// manifest without a name. What was cut off is done again by the next opening. Errors: io,
/// out_of_space.
result<void> rename_manifests(file_system& files, const std::string& directory,
                              std::span<const manifest_renaming> renamings);

}  // namespace semantic::storage
