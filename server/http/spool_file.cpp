// SPDX-License-Identifier: Apache-2.0
#include "server/http/spool_file.hpp"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <unistd.h>

namespace semantic::server {

namespace {

storage::failure fault(const char* operation, int error) {
    // EFBIG: a limit of the process (ulimit -f); to the client the same as a full disk.
    const bool is_full = error == ENOSPC || error == EDQUOT || error == EFBIG;
    return {is_full ? storage::errc::out_of_space : storage::errc::io,
            std::string(operation) + ": " + std::strerror(error)};
}

}  // namespace

storage::result<std::shared_ptr<spool_file>> spool_file::make(
    const std::string& directory, upload_slot slot, std::unique_ptr<engine::disk_room> room) {
    const std::filesystem::path folder = directory.empty() ? std::filesystem::temp_directory_path()
                                                           : std::filesystem::path(directory);
    std::string name = (folder / "upload-XXXXXX").string();
    const int descriptor = ::mkstemp(name.data());
    if (descriptor < 0) return fault("could not make a file for the upload", errno);
    // Without a name the file ends with its descriptor, also when the program crashes.
    ::unlink(name.c_str());
    return std::make_shared<spool_file>(descriptor, std::move(slot), std::move(room));
}

spool_file::~spool_file() { ::close(descriptor_); }

storage::result<void> spool_file::append(std::string_view bytes) {
    if (room_ != nullptr)
        if (auto ok = room_->grow(bytes.size()); !ok) return ok;
    while (!bytes.empty()) {
        const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) return fault("could not keep the upload", errno);
        bytes.remove_prefix(static_cast<std::size_t>(written));
        size_ += static_cast<std::uint64_t>(written);
    }
    return {};
}

storage::result<void> spool_file::read_at(std::uint64_t offset, std::span<std::byte> bytes) const {
    while (!bytes.empty()) {
        const ssize_t got =
            ::pread(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return fault("could not read the upload", errno);
        if (got == 0) return storage::failure{storage::errc::io, "the upload ends too early"};
        bytes = bytes.subspan(static_cast<std::size_t>(got));
        offset += static_cast<std::uint64_t>(got);
    }
    return {};
}

}  // namespace semantic::server
