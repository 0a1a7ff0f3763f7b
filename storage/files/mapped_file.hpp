// SPDX-License-Identifier: Apache-2.0
#pragma once
// A file mapped read-only, for containers whose tensors are used where they lie. Movable; spans
// into bytes() stay valid while it lives. Thread: any. A file that somebody shortens while it is
// mapped ends the process (SIGBUS): only for files that people do not write to while they are used,
// such as weights.

#include <cstddef>
#include <span>
#include <string>
#include <utility>

#include "storage/types/errc.hpp"

namespace semantic::storage {

class mapped_file {
  public:
    /// Blocks. Follows symbolic links. Errors: not_found, io, corrupt for an empty file; each names
    /// the path.
    static result<mapped_file> open(const std::string& path);
    mapped_file(mapped_file&& from) noexcept : bytes_(std::exchange(from.bytes_, {})) {}
    mapped_file& operator=(mapped_file&& from) noexcept {
        std::swap(bytes_, from.bytes_);
        return *this;
    }
    ~mapped_file();

    std::span<const std::byte> bytes() const noexcept { return bytes_; }
    /// Advises the kernel to free the whole pages of `part`, which is not needed any more, so that
    /// a loaded model does not take memory twice; reading them again reads the file. Requires:
    /// `part` is inside bytes().
    void drop(std::span<const std::byte> part) const noexcept;

  private:
    explicit mapped_file(std::span<const std::byte> bytes) : bytes_(bytes) {}
    std::span<const std::byte> bytes_;
};

}  // namespace semantic::storage
