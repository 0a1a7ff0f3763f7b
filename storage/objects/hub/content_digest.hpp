// SPDX-License-Identifier: Apache-2.0
#pragma once
// The digests by which a model hub names contents: of large files SHA-256, of all others the id
// that Git gives them. One thread at a time.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace semantic::storage {

class content_digest {
  public:
    enum class kind {
        sha256,   // 64 hex digits
        git_blob  // 40: SHA-1 of "blob ", the length in decimal, a zero byte, and the content
    };
    /// `bytes`: how long the content will be.
    content_digest(kind form, std::uint64_t bytes);
    ~content_digest();
    content_digest(content_digest&&) noexcept;
    content_digest& operator=(content_digest&&) noexcept;

    void add(std::string_view bytes);
    /// Returns: the digest of the added bytes, lower-case hex. Call once, after the last add().
    std::string finish();

  private:
    struct state;
    std::unique_ptr<state> state_;
};

}  // namespace semantic::storage
