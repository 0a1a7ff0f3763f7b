#pragma once
// An upload that is too large for memory: a file without a name, gone with this object.
// Owner: the request. Thread: one at a time. Every method but size() blocks.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "storage/types/errc.hpp"

namespace semantic::server {

class spool_file {
  public:
    /// `directory`: empty means the system's for temporary files. Errors: io, out_of_space.
    static storage::result<std::shared_ptr<spool_file>> make(const std::string& directory);
    explicit spool_file(int descriptor) : descriptor_(descriptor) {}
    ~spool_file();
    spool_file(const spool_file&) = delete;
    spool_file& operator=(const spool_file&) = delete;

    /// Errors: io, out_of_space.
    storage::result<void> append(std::string_view bytes);
    /// Errors: io, also where the file ends before `into` does.
    storage::result<void> read_at(std::uint64_t offset, std::span<std::byte> into) const;
    std::uint64_t size() const noexcept { return size_; }

  private:
    int descriptor_;
    std::uint64_t size_ = 0;
};

}  // namespace semantic::server
