// SPDX-License-Identifier: Apache-2.0
#pragma once
// Signs what nodes put into Redis, and checks what they read there. Redis is reached without TLS,
// and an attacker who can write to it must not be able to send a client's request and key to an
// address of his own: only a node that has read the object store's secret
// (agents/common_secret.hpp) makes a signature. A signature holds for its purpose and for a quarter
// of an hour, so that the address of a node that is gone leads nowhere for long. Thread: any.

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

namespace semantic::storage {

class redis_seal {
  public:
    /// How old a signature may be, or how far in the future, in seconds: clocks of nodes differ,
    /// and Redis may repeat old texts.
    static constexpr std::int64_t seconds_max = 900;

    /// `unix_seconds`: empty means the system's clock.
    explicit redis_seal(std::function<std::int64_t()> unix_seconds = {});

    /// Sets the object store's secret. Before that nothing is signed and no signature is accepted.
    void set_secret(std::string_view secret);
    bool has_secret() const;

    /// Returns: `text` signed for a purpose, as "TIME SIGNATURE TEXT"; nothing without a secret.
    /// `purpose`: one line.
    std::optional<std::string> seal(std::string_view purpose, std::string_view text) const;
    /// Returns: the text in `sealed`, if a node of this object store signed it for this purpose
    /// within the last quarter of an hour; else nothing.
    std::optional<std::string> open(std::string_view purpose, std::string_view sealed) const;

  private:
    std::string key() const;

    const std::function<std::int64_t()> unix_seconds_;
    mutable std::mutex mutex_;
    std::string key_;  // guarded by mutex_; empty: no secret is known
};

}  // namespace semantic::storage
