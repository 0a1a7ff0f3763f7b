// SPDX-License-Identifier: Apache-2.0
#pragma once
// The keys that objects are encrypted with, from the file that an operator keeps.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "storage/files/file.hpp"
#include "storage/objects/object_store.hpp"

namespace semantic::storage {

inline constexpr std::size_t object_key_bytes = 32;
inline constexpr std::size_t object_keys_max = 16;

/// The first encrypts; each decrypts what it has encrypted.
using object_keys = std::vector<std::string>;  // object_key_bytes each

/// What a key file says: a line of 64 hex digits a key; blank lines and those after '#' count for
/// nothing. Errors: bad_value with the number of the line, never with a digit of it; also for none,
/// for more than object_keys_max, and for one that is there twice.
object_result<object_keys> parse_object_keys(std::string_view text);

/// Blocks. Errors: those of parse_object_keys; denied for a file that others than its owner and
/// group may read; io.
object_result<object_keys> read_object_keys(file_system& files, const std::string& path);

}  // namespace semantic::storage
