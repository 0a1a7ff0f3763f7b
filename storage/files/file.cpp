// SPDX-License-Identifier: Apache-2.0
#include "storage/files/file.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <utility>

namespace semantic::storage {

namespace {

constexpr mode_t file_mode = 0600;
constexpr mode_t directory_mode = 0700;

std::atomic<std::uint64_t> quota_refusals{0};

/// Returns: the failure that errno describes after a system call. Counts refusals by a user's
/// quota.
failure os_failure(const std::string& path, const char* call) {
    const int code = errno;
    if (code == EDQUOT) ++quota_refusals;
    errc kind = errc::io;
    if (code == ENOENT) kind = errc::not_found;
    if (code == ENOSPC || code == EDQUOT) kind = errc::out_of_space;
    return {kind, path + ": " + call + ": " + std::strerror(code)};
}

/// Repeats a call that a signal interrupted.
template <class Call>
auto retry(Call call) {
    auto outcome = call();
    while (outcome < 0 && errno == EINTR) outcome = call();
    return outcome;
}

class descriptor {
  public:
    explicit descriptor(int fd) noexcept : fd_(fd) {}
    descriptor(descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    descriptor& operator=(descriptor&&) = delete;
    ~descriptor() {
        if (fd_ >= 0) ::close(fd_);
    }
    int get() const noexcept { return fd_; }

  private:
    int fd_;
};

class posix_readable final : public readable_file {
  public:
    posix_readable(descriptor fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}

    result<std::uint64_t> size() override {
        struct stat status {};
        if (::fstat(fd_.get(), &status) != 0) return os_failure(path_, "fstat");
        if (!S_ISREG(status.st_mode)) return failure{errc::io, path_ + ": not a regular file"};
        return static_cast<std::uint64_t>(status.st_size);
    }

    result<void> read_at(std::uint64_t offset, std::span<std::byte> target) override {
        std::size_t done = 0;
        while (done < target.size()) {
            const auto at = static_cast<off_t>(offset + done);
            const ssize_t count = retry(
                [&] { return ::pread(fd_.get(), target.data() + done, target.size() - done, at); });
            if (count < 0) return os_failure(path_, "read");
            if (count == 0)
                return failure{errc::corrupt,
                               path_ + ": the file ends at byte " + std::to_string(offset + done) +
                                   ", " + std::to_string(offset + target.size()) + " are needed"};
            done += static_cast<std::size_t>(count);
        }
        return {};
    }

  private:
    descriptor fd_;
    std::string path_;
};

class posix_writable final : public writable_file {
  public:
    posix_writable(descriptor fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}

    result<void> write(std::span<const std::byte> bytes) override {
        while (!bytes.empty()) {
            const ssize_t count =
                retry([&] { return ::write(fd_.get(), bytes.data(), bytes.size()); });
            if (count < 0) return os_failure(path_, "write");
            if (count == 0) return failure{errc::io, path_ + ": write: nothing was taken"};
            bytes = bytes.subspan(static_cast<std::size_t>(count));
        }
        return {};
    }

    result<void> sync() override {
        if (::fsync(fd_.get()) != 0) return os_failure(path_, "fsync");
        return {};
    }

  private:
    descriptor fd_;
    std::string path_;
};

class posix_lock final : public directory_lock {
  public:
    posix_lock(std::string path, descriptor directory, descriptor file)
        : path_(std::move(path)), directory_(std::move(directory)), file_(std::move(file)) {}

    bool is_in_place() const override {
        struct stat named {
        }, locked{};
        // An error that says nothing about the directory counts as "in place".
        if (::stat(path_.c_str(), &named) != 0) return errno != ENOENT && errno != ENOTDIR;
        return ::fstat(directory_.get(), &locked) != 0 ||
               (named.st_dev == locked.st_dev && named.st_ino == locked.st_ino);
    }

  private:
    std::string path_;
    // Closing the two releases their locks.
    descriptor directory_;
    descriptor file_;
};

/// Returns: the directory that contains `path`; "." for a bare name, "/" for the root.
std::string parent_of(const std::string& path) {
    const std::size_t end = path.find_last_not_of('/');
    const std::size_t slash = end == std::string::npos ? end : path.rfind('/', end);
    if (slash == std::string::npos) return end == std::string::npos ? "/" : ".";
    return slash == 0 ? "/" : path.substr(0, slash);
}

/// Takes an exclusive lock on an open directory or file, without waiting. `directory`: for the
/// message. A directory that cannot be locked, as on network file systems, is no error: the lock of
/// the file in it counts then. Errors: locked, io.
result<void> take(const descriptor& fd, const std::string& directory, bool is_directory) {
    if (retry([&] { return ::flock(fd.get(), LOCK_EX | LOCK_NB); }) == 0) return {};
    if (errno == EWOULDBLOCK)
        return failure{errc::locked, directory + ": another process uses this cache directory"};
    // Network file systems can lock files and no directories.
    if (is_directory && (errno == EBADF || errno == EINVAL || errno == EOPNOTSUPP)) return {};
    return os_failure(directory, "flock");
}

class posix_files final : public file_system {
  public:
    result<std::unique_ptr<readable_file>> open(const std::string& path) override {
        descriptor fd(retry([&] { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC); }));
        if (fd.get() < 0) return os_failure(path, "open");
        return std::unique_ptr<readable_file>(new posix_readable(std::move(fd), path));
    }

    result<std::unique_ptr<writable_file>> create(const std::string& path) override {
        constexpr int flags = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW;
        descriptor fd(retry([&] { return ::open(path.c_str(), flags, file_mode); }));
        if (fd.get() < 0) return os_failure(path, "create");
        return std::unique_ptr<writable_file>(new posix_writable(std::move(fd), path));
    }

    result<std::unique_ptr<writable_file>> append(const std::string& path) override {
        constexpr int flags = O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW;
        descriptor fd(retry([&] { return ::open(path.c_str(), flags); }));
        if (fd.get() < 0) return os_failure(path, "open");
        return std::unique_ptr<writable_file>(new posix_writable(std::move(fd), path));
    }

    result<void> rename(const std::string& from, const std::string& to) override {
        if (::rename(from.c_str(), to.c_str()) != 0) return os_failure(from, "rename");
        return {};
    }

    result<void> link(const std::string& from, const std::string& to) override {
        if (::link(from.c_str(), to.c_str()) == 0) return {};
        if (errno == EEXIST) return failure{errc::bad_value, to + ": is there already"};
        return os_failure(from, "link");
        return {};
    }

    result<void> unlink(const std::string& path) override {
        if (::unlink(path.c_str()) != 0) return os_failure(path, "unlink");
        return {};
    }

    result<void> sync_directory(const std::string& path) override {
        descriptor fd(
            retry([&] { return ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); }));
        if (fd.get() < 0) return os_failure(path, "open");
        // Some file systems have nothing to sync in a directory and say so with EINVAL.
        if (::fsync(fd.get()) != 0 && errno != EINVAL) return os_failure(path, "fsync");
        return {};
    }

    result<void> make_directory(const std::string& path) override {
        struct stat status {};
        if (::stat(path.c_str(), &status) == 0) {
            if (S_ISDIR(status.st_mode)) return {};
            return failure{errc::io, path + ": there is a file where a directory is needed"};
        }
        const std::string parent = parent_of(path);
        if (parent != path && parent != "/" && parent != ".")
            if (auto made = make_directory(parent); !made) return made;
        // EEXIST: another process has made it meanwhile.
        if (::mkdir(path.c_str(), directory_mode) != 0 && errno != EEXIST)
            return os_failure(path, "mkdir");
        return sync_directory(parent);
    }

    result<void> remove_directory(const std::string& path) override {
        if (::rmdir(path.c_str()) != 0) return os_failure(path, "rmdir");
        return {};
    }

    result<std::vector<directory_entry>> list(const std::string& path) override {
        DIR* directory = ::opendir(path.c_str());
        if (directory == nullptr) return os_failure(path, "opendir");
        std::vector<directory_entry> entries;
        errno = 0;
        while (const dirent* each = ::readdir(directory)) {
            directory_entry entry;
            entry.name = each->d_name;
            struct stat status {};
            if (entry.name == "." || entry.name == "..") continue;
            // Left out: an entry that has gone meanwhile, and what is neither file nor directory.
            if (::fstatat(::dirfd(directory), each->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0) {
                entry.is_directory = S_ISDIR(status.st_mode);
                entry.bytes = static_cast<std::uint64_t>(status.st_size);
                if (entry.is_directory || S_ISREG(status.st_mode))
                    entries.push_back(std::move(entry));
            }
            errno = 0;
        }
        const int code = errno;
        ::closedir(directory);
        errno = code;
        if (code != 0) return os_failure(path, "readdir");
        std::sort(entries.begin(), entries.end(),
                  [](const auto& a, const auto& b) { return a.name < b.name; });
        return entries;
    }

    result<bool> exists(const std::string& path) override {
        struct stat status {};
        if (::lstat(path.c_str(), &status) == 0) return true;
        if (errno == ENOENT || errno == ENOTDIR) return false;
        return os_failure(path, "stat");
    }

    // Locks the directory itself, because another process may delete the lock file and create a new
    // one while it is locked; and also the file, for programs that only look at that.
    result<std::unique_ptr<directory_lock>> lock(const std::string& directory) override {
        descriptor itself(
            retry([&] { return ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); }));
        if (itself.get() < 0) return os_failure(directory, "open");
        if (auto ok = take(itself, directory, true); !ok) return ok.error();
        const std::string path = directory + "/lock";
        constexpr int flags = O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW;
        descriptor file(retry([&] { return ::open(path.c_str(), flags, file_mode); }));
        if (file.get() < 0) return os_failure(path, "open");
        if (auto ok = take(file, directory, false); !ok) return ok.error();
        return std::unique_ptr<directory_lock>(
            new posix_lock(directory, std::move(itself), std::move(file)));
    }

    result<disk_space> space(const std::string& path) override {
        struct statvfs status {};
        if (::statvfs(path.c_str(), &status) != 0) return os_failure(path, "statvfs");
        const std::uint64_t unit = status.f_frsize;
        return disk_space{status.f_blocks * unit, status.f_bavail * unit, status.f_files,
                          status.f_favail, quota_refusals.load()};
    }
};

}  // namespace

file_system& posix_file_system() {
    static posix_files files;
    return files;
}

result<std::string> read_whole(file_system& files, const std::string& path,
                               std::uint64_t bytes_max) {
    auto file = files.open(path);
    if (!file) return file.error();
    const auto file_bytes = (*file)->size();
    if (!file_bytes) return file_bytes.error();
    if (*file_bytes > bytes_max)
        return failure{errc::corrupt, path + ": the file has " + std::to_string(*file_bytes) +
                                          " bytes, at most " + std::to_string(bytes_max) +
                                          " are allowed"};
    std::string text(static_cast<std::size_t>(*file_bytes), '\0');
    if (auto read = (*file)->read_at(0, std::as_writable_bytes(std::span(text))); !read)
        return read.error();
    return text;
}

result<std::uint64_t> bytes_below(file_system& files, const std::string& directory) {
    const auto entries = files.list(directory);
    if (!entries) return entries.error();
    std::uint64_t bytes = 0;
    for (const directory_entry& entry : *entries) {
        if (entry.is_directory) {
            const auto below = bytes_below(files, directory + "/" + entry.name);
            if (!below) return below;
            bytes += *below;
        } else {
            bytes += entry.bytes;
        }
    }
    return bytes;
}

result<void> replace_file(file_system& files, const std::string& path, std::string_view bytes) {
    const std::string temporary = path + ".tmp";
    const auto write = [&]() -> result<void> {
        auto file = files.create(temporary);
        if (!file) return file.error();
        if (auto ok = (*file)->write(std::as_bytes(std::span(bytes))); !ok) return ok;
        if (auto ok = (*file)->sync(); !ok) return ok;
        return files.rename(temporary, path);
    };
    if (auto ok = write(); !ok) {
        (void)files.unlink(temporary);  // best effort: the directory's owner removes what is left
        return ok;
    }
    return files.sync_directory(path.substr(0, path.rfind('/')));
}

}  // namespace semantic::storage
