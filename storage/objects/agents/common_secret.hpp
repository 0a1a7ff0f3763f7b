// SPDX-License-Identifier: Apache-2.0
#pragma once
// The secret that names of agents and blocks are made with (storage/FORMAT.md §3), one for all
// machines on an object store.

#include <string>

#include "storage/files/file.hpp"
#include "storage/objects/object_store.hpp"

namespace semantic::storage {

/// Blocks. Gives all machines on the object store one secret, that of the first one, and returns
/// it. Call it before the agents' store opens `directory`. A directory that has agreed once needs
/// no answer of the store for it. Errors: io where the directory has another secret, naming both
/// ways out; those of the store.
object_result<std::string> agree_on_secret(object_store& objects, file_system& files,
                                           const std::string& directory);

/// Blocks. Checks that `objects` can read what the machines on the store write; success where no
/// machine has used the store yet. Errors: denied and corrupt where the two have different keys, or
/// only one of them encrypts; those of the store.
object_result<void> check_keys(object_store& objects);

}  // namespace semantic::storage
