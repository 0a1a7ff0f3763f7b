// SPDX-License-Identifier: Apache-2.0
#pragma once
// The secret that names of agents and blocks are made with (storage/FORMAT.md §3), one for all
// machines on an object store.

#include <string>

#include "storage/files/file.hpp"
#include "storage/objects/object_store.hpp"

namespace semantic::storage {

/// Blocks. Makes the directories of all machines on the store have one secret, the first one's,
/// and returns it.
/// To be called before the agents' store opens the directory. A directory that has agreed once does
/// so again without an answer of the store. Errors: io where the directory has another secret,
/// naming both ways out; those of the store.
object_result<std::string> agree_on_secret(object_store& objects, file_system& files,
                                           const std::string& directory);

/// Blocks. Whether `objects` reads what the machines on the store write; a store that no machine
/// has used yet is read by everybody. Errors: denied and corrupt where the store is encrypted with
/// other keys, or only one of the two is; those of the store.
object_result<void> check_keys(object_store& objects);

}  // namespace semantic::storage
