#include "storage/files/mapped_file.hpp"

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "storage/types/assert.hpp"

namespace semantic::storage {

namespace {

failure os_failure(const std::string& path, const char* call) {
    const int code = errno;
    return {code == ENOENT ? errc::not_found : errc::io,
            path + ": " + call + ": " + std::strerror(code)};
}

}  // namespace

result<mapped_file> mapped_file::open(const std::string& path) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return os_failure(path, "open");
    struct stat status {};
    if (::fstat(fd, &status) != 0) {
        const failure f = os_failure(path, "fstat");
        ::close(fd);
        return f;
    }
    if (!S_ISREG(status.st_mode)) {
        ::close(fd);
        return failure{errc::io, path + ": not a regular file"};
    }
    const auto file_bytes = static_cast<std::size_t>(status.st_size);
    if (file_bytes == 0) {
        ::close(fd);
        return failure{errc::corrupt, path + ": the file is empty: incomplete download?"};
    }
    void* mapped = ::mmap(nullptr, file_bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    const failure map_failure = mapped == MAP_FAILED ? os_failure(path, "mmap") : failure{};
    ::close(fd);
    if (mapped == MAP_FAILED) return map_failure;
    return mapped_file({static_cast<const std::byte*>(mapped), file_bytes});
}

mapped_file::~mapped_file() {
    if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

void mapped_file::drop(std::span<const std::byte> part) const noexcept {
    ASSERT(part.empty() || (part.data() >= bytes_.data() &&
                            part.data() + part.size() <= bytes_.data() + bytes_.size()));
    // Whole pages only: the first and the last may hold a neighbour's bytes.
    const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
    const auto begin = (reinterpret_cast<std::uintptr_t>(part.data()) + page - 1) / page * page;
    const auto end = (reinterpret_cast<std::uintptr_t>(part.data()) + part.size()) / page * page;
    if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

}  // namespace semantic::storage
