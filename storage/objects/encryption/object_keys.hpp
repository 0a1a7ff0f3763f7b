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

/// The first key encrypts new objects; all of them decrypt.
using object_keys = std::vector<std::string>;  // object_key_bytes each

/// Returns: the keys in the text of a key file, which has one key of 64 hex digits a line; blank
/// lines and lines that begin with '#' are ignored. Errors: bad_value with the number of the line,
/// never with a digit of the key; also where there is no key, more than object_keys_max, or one
/// twice.
object_result<object_keys> parse_object_keys(std::string_view text);

/// Blocks. Reads a key file. Errors: those of parse_object_keys(); denied for a file that users
/// other than its owner and group may read; io.
object_result<object_keys> read_object_keys(file_system& files, const std::string& path);

}  // namespace semantic::storage
