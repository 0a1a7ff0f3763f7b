// SPDX-License-Identifier: Apache-2.0
#pragma once
// Encrypts objects before they leave the machine: AES-256-GCM in front of another object_store, so
// that neither the store nor the network reads them. An object's contents, name and length are
// authenticated; its name, its approximate size and when it changes stay visible, and a store that
// puts an older version back is not detected. storage/FORMAT.md §13 has the layout. Owner:
// open_object_store's caller. Thread: as object_store.

#include <memory>
#include <string>
#include <string_view>

#include "storage/objects/encryption/object_keys.hpp"
#include "storage/objects/object_store.hpp"

namespace semantic::storage {

/// Whether `bytes` begin with the header of an encrypted object.
bool is_encrypted_object(std::string_view bytes);

/// `keys`: as parse_object_keys gives them. Errors of its methods in addition to those of `store`:
/// denied for an object that none of the keys has encrypted, corrupt for one that was changed, cut
/// off, bears another's name, or is not encrypted at all. Sizes are those of the contents.
std::unique_ptr<object_store> make_encrypted_objects(std::unique_ptr<object_store> store,
                                                     object_keys keys);

/// Blocks. Returns: `store` itself where `key_file` is empty, else `store` with encryption by the
/// keys in that file. Errors: those of read_object_keys().
object_result<std::unique_ptr<object_store>> encrypted_with(std::unique_ptr<object_store> store,
                                                            file_system& files,
                                                            const std::string& key_file);

}  // namespace semantic::storage
