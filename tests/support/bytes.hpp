// SPDX-License-Identifier: Apache-2.0
#pragma once
// Files and sinks that are strings.

#include <cstring>
#include <string>

#include "storage/files/byte_sink.hpp"
#include "storage/files/file.hpp"

namespace semantic::tests {

/// A file in memory.
class bytes_file final : public storage::readable_file {
  public:
    explicit bytes_file(std::string bytes) : bytes_(std::move(bytes)) {}
    storage::result<std::uint64_t> size() override { return bytes_.size(); }
    storage::result<void> read_at(std::uint64_t offset, std::span<std::byte> target) override {
        if (offset > bytes_.size() || target.size() > bytes_.size() - offset)
            return storage::failure{storage::errc::corrupt, "the file ends"};
        if (!target.empty()) std::memcpy(target.data(), bytes_.data() + offset, target.size());
        return {};
    }

  private:
    std::string bytes_;
};

/// A sink that appends to `bytes`, which outlives it.
inline storage::byte_sink appending_to(std::string& bytes) {
    return [&bytes](std::span<const std::byte> more) {
        bytes.append(reinterpret_cast<const char*>(more.data()), more.size());
        return storage::result<void>();
    };
}

}  // namespace semantic::tests
