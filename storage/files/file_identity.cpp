// SPDX-License-Identifier: Apache-2.0
#include "storage/files/file_identity.hpp"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace semantic::storage {

namespace {

std::int64_t nanoseconds(const timespec& time) {
    return static_cast<std::int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

/// Returns: the identity in a file's status; nothing where it is no regular file.
std::optional<file_identity> identity_in(const struct stat& status) {
    if (!S_ISREG(status.st_mode)) return std::nullopt;
    return file_identity{static_cast<std::uint64_t>(status.st_dev),
                         static_cast<std::uint64_t>(status.st_ino),
                         static_cast<std::uint64_t>(status.st_size), nanoseconds(status.st_mtim),
                         nanoseconds(status.st_ctim)};
}

}  // namespace

std::optional<file_identity> identity_of(const std::string& path) {
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0) return std::nullopt;
    return identity_in(status);
}

held_file::~held_file() {
    if (descriptor_ >= 0) ::close(descriptor_);
}

std::optional<held_file> held_file::open(const std::string& path) {
    held_file held;
    held.descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (held.descriptor_ < 0) return std::nullopt;
    ::flock(held.descriptor_, LOCK_SH | LOCK_NB);  // without it the file may be removed: no harm
    struct stat status {};
    if (::fstat(held.descriptor_, &status) != 0) return std::nullopt;
    const auto identity = identity_in(status);
    if (!identity) return std::nullopt;
    held.identity_ = *identity;
    return held;
}

result<void> held_file::read_at(std::uint64_t offset, std::span<std::byte> buffer) const {
    while (!buffer.empty()) {
        const ssize_t count =
            ::pread(descriptor_, buffer.data(), buffer.size(), static_cast<off_t>(offset));
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0)
            return failure{errc::io, count == 0 ? "the file ends too early"
                                                : std::string("pread: ") + std::strerror(errno)};
        offset += static_cast<std::uint64_t>(count);
        buffer = buffer.subspan(static_cast<std::size_t>(count));
    }
    return {};
}

bool is_held(const std::string& path) {
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (descriptor < 0) return false;
    const bool held = ::flock(descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    ::close(descriptor);
    return held;
}

}  // namespace semantic::storage
