// SPDX-License-Identifier: Apache-2.0
#pragma once
// The two checksums of the cache's files: XXH3-64 guards a tensor's bytes, XXH3-128 names and
// guards what is small. Pure values; not safe to share one object between threads.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "storage/types/ids.hpp"

namespace semantic::storage {

/// The lower-case hex digits of an XXH3-64's big-endian digest.
using checksum_digits = std::array<char, 16>;

/// XXH3-64 of `bytes`.
checksum_digits digits_of_checksum(std::span<const std::byte> bytes);

/// XXH3-64 over bytes that come in pieces.
class checksum64 {
  public:
    checksum64();
    ~checksum64();
    checksum64(const checksum64&) = delete;
    checksum64& operator=(const checksum64&) = delete;
    /// Adds the next bytes.
    void add(std::span<const std::byte> bytes);
    /// Returns: the digest of all bytes so far, as 16 lower-case hex digits.
    std::string hex() const;

  private:
    struct state;
    std::unique_ptr<state> state_;
};

/// XXH3-64 of `text`.
std::uint64_t checksum_of(std::string_view text);

/// XXH3-128 of `text`, big-endian (the canonical form).
block_hash checksum128(std::string_view text);

/// XXH3-128 over fields. Each field comes after its length (8 bytes, little-endian), so that no two
/// lists of fields give the same bytes.
class field_hasher {
  public:
    field_hasher& add(std::string_view field);
    field_hasher& add(std::span<const std::byte> field);
    /// Returns: the hash of all fields so far.
    block_hash finish() const { return checksum128(bytes_); }

  private:
    std::string bytes_;
};

}  // namespace semantic::storage
