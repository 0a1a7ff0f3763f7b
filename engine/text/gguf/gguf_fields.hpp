// SPDX-License-Identifier: Apache-2.0
#pragma once
// Typed reading of a GGUF's metadata. Errors of all functions: corrupt, with the key and the kind
// of value that it has instead.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "storage/files/gguf.hpp"
#include "storage/types/errc.hpp"

namespace semantic::engine::gguf_fields {

/// A string; empty if there is no such key.
storage::result<std::string_view> text(const storage::gguf_view& metadata, std::string_view key);
/// A boolean; nothing if there is no such key.
storage::result<std::optional<bool>> flag(const storage::gguf_view& metadata, std::string_view key);
/// A whole number that is not negative; nothing if there is no such key.
storage::result<std::optional<std::uint64_t>> number(const storage::gguf_view& metadata,
                                                     std::string_view key);
/// An array of strings; null if there is no such key.
storage::result<const storage::gguf_array*> strings(const storage::gguf_view& metadata,
                                                    std::string_view key);
/// An array of whole or real numbers; null if there is no such key.
storage::result<const storage::gguf_array*> numbers(const storage::gguf_view& metadata,
                                                    std::string_view key);

}  // namespace semantic::engine::gguf_fields
