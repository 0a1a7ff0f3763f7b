#pragma once
// HMAC-SHA256 (RFC 2104). Pure.

#include <string>
#include <string_view>

namespace semantic::storage {

/// Returns: 32 bytes.
std::string hmac_sha256(std::string_view key, std::string_view text);

/// Compares in a time that says nothing of where the two differ.
bool is_same_mac(std::string_view a, std::string_view b);

}  // namespace semantic::storage
