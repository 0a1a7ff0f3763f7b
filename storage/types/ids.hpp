// SPDX-License-Identifier: Apache-2.0
#pragma once
// Identifiers that cross every layer. Plain values, safe to copy and to share between threads.

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "storage/types/errc.hpp"

namespace semantic::storage {

using token_id = std::int32_t;

/// 128-bit content hash of a block, or of anything that names a file.
struct block_hash {
    std::array<std::uint8_t, 16> bytes{};

    /// Returns: 32 lower-case hex digits.
    std::string hex() const;
    /// Errors: bad_value when `text` is not 32 lower-case hex digits.
    static result<block_hash> from_hex(std::string_view text);
    auto operator<=>(const block_hash&) const = default;
};

/// Who owns an agent: agents of two tenants share nothing. Made by agent_cache_store::tenant(); a
/// value made of nothing is the default tenant.
struct tenant_id {
    block_hash salt{};  // part of the name of everything that the tenant has on disk
    bool is_default() const noexcept { return *this == tenant_id{}; }
    auto operator<=>(const tenant_id&) const = default;
};

/// Name of an agent: [A-Za-z0-9._:-]{1,128}, and its tenant; the same name under two tenants is
/// two agents. A value of this type is always well formed.
class agent_id {
  public:
    /// An agent of the default tenant. Errors: bad_value, saying which rule `text` breaks.
    static result<agent_id> parse(std::string_view text);
    /// Returns: the agent of the same name that belongs to `tenant`.
    agent_id owned_by(const tenant_id& tenant) const {
        agent_id other = *this;
        other.tenant_ = tenant;
        return other;
    }

    const std::string& str() const noexcept { return text_; }
    const tenant_id& tenant() const noexcept { return tenant_; }
    auto operator<=>(const agent_id&) const = default;

  private:
    explicit agent_id(std::string text) : text_(std::move(text)) {}
    std::string text_;
    tenant_id tenant_;
};

}  // namespace semantic::storage

template <>
struct std::hash<semantic::storage::block_hash> {
    std::size_t operator()(const semantic::storage::block_hash& h) const noexcept {
        std::size_t value = 0;
        for (std::size_t i = 0; i < sizeof value; ++i) value = (value << 8) | h.bytes[i];
        return value;
    }
};

template <>
struct std::hash<semantic::storage::agent_id> {
    std::size_t operator()(const semantic::storage::agent_id& id) const noexcept {
        return std::hash<std::string>{}(id.str()) ^
               std::hash<semantic::storage::block_hash>{}(id.tenant().salt);
    }
};
