// SPDX-License-Identifier: Apache-2.0
#pragma once
// How the contents of one object are encrypted: a key of its own from a random salt (HKDF-SHA256),
// segments of 64 KiB sealed with AES-256-GCM, counted, the last one marked, so that none can be
// left out, moved or appended (the STREAM construction: Hoang, Reyhanitabar, Rogaway and Vizár,
// CRYPTO 2015). storage/FORMAT.md §13. Pure, but for the random salt. Thread: any.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace semantic::storage {

inline constexpr std::size_t cipher_header_bytes = 64;
inline constexpr std::size_t cipher_segment_bytes = 64 * 1024;  // of contents
inline constexpr std::size_t cipher_tag_bytes = 16;
inline constexpr std::size_t cipher_salt_bytes = 32;
inline constexpr std::size_t cipher_key_id_bytes = 16;

/// The header in front of an object's segments.
struct cipher_header {
    std::string key_id;  // cipher_key_id_bytes
    std::string salt;    // cipher_salt_bytes
};

/// Returns: an id of a key, derived from it, which reveals nothing of the key. `key`: 32 bytes.
std::string cipher_key_id(std::string_view key);

/// Returns: a header for a new object, with a random salt. `key`: 32 bytes.
cipher_header new_cipher_header(std::string_view key);
/// Returns: the cipher_header_bytes bytes of a header.
std::string encode(const cipher_header& header);
/// Returns: the header at the start of `bytes`; nothing where there is none of this version.
std::optional<cipher_header> decode_cipher_header(std::string_view bytes);

/// Returns: the size of an object whose contents have so many bytes.
std::uint64_t encrypted_bytes(std::uint64_t contents);
/// Returns: the size of the contents of an object of this size; nothing where no contents give it.
std::optional<std::uint64_t> decrypted_bytes(std::uint64_t encrypted);

/// Overwrites a secret in memory and makes it empty.
void wipe(std::string& secret);

/// The segments of one object.
class object_cipher {
  public:
    /// `key`: 32 bytes. `name`: the object's, which the segments are bound to.
    object_cipher(std::string_view key, const cipher_header& header, std::string_view name);

    /// Encrypts segment `number` and appends it, with its tag, to `target`. `contents`:
    /// cipher_segment_bytes bytes; of the last segment 0 to as many.
    void seal(std::uint32_t number, bool is_last, std::string_view contents,
              std::string& target) const;
    /// Decrypts a segment and appends its contents to `target`. Returns: false where it is not what
    /// was sealed under this number, and then `target` is unchanged.
    bool open(std::uint32_t number, bool is_last, std::string_view segment,
              std::string& target) const;

  private:
    std::string key_;
    std::string bound_;  // authenticated with each segment: the header and the name
};

}  // namespace semantic::storage
