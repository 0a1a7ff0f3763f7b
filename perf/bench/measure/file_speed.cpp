// SPDX-License-Identifier: Apache-2.0
#include "perf/bench/measure/file_speed.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <stdexcept>
#include <unistd.h>
#include <vector>

namespace semantic::bench {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t piece_bytes = 1 << 20;
constexpr std::size_t files_max = 100'000;
constexpr int passes = 3;

class open_file {
  public:
    explicit open_file(const std::string& path)
        : path_(path), fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
        if (fd_ < 0) fail();
    }
    ~open_file() { ::close(fd_); }
    open_file(const open_file&) = delete;
    open_file& operator=(const open_file&) = delete;

    /// Reads the file to its end. Returns: its bytes.
    std::uint64_t read_all(std::vector<char>& buffer) const {
        std::uint64_t bytes = 0;
        for (;;) {
            const ssize_t count = ::read(fd_, buffer.data(), buffer.size());
            if (count < 0 && errno == EINTR) continue;
            if (count < 0) fail();
            if (count == 0) return bytes;
            bytes += static_cast<std::uint64_t>(count);
        }
    }
    bool leave_page_cache() const { return ::posix_fadvise(fd_, 0, 0, POSIX_FADV_DONTNEED) == 0; }

  private:
    [[noreturn]] void fail() const {
        throw std::runtime_error(path_ + ": " + std::strerror(errno));
    }
    std::string path_;
    int fd_;
};

/// The regular files below the folder that were changed at `since` or later. Errors:
/// std::runtime_error.
std::vector<std::string> files_below(const std::string& folder, fs::file_time_type since) {
    std::vector<std::string> paths;
    std::error_code error;
    for (fs::recursive_directory_iterator each(folder, error), end; !error && each != end;
         each.increment(error)) {
        std::error_code gone;  // a server deletes what it no longer needs
        if (!each->is_regular_file(gone) || each->last_write_time(gone) < since || gone) continue;
        paths.push_back(each->path().string());
        if (paths.size() > files_max) throw std::runtime_error(folder + ": too many files");
    }
    if (error) throw std::runtime_error(folder + ": " + error.message());
    std::sort(paths.begin(), paths.end());
    return paths;
}

/// Returns: the seconds that one pass over all files takes.
double read_once(const std::vector<std::string>& paths, std::uint64_t& bytes) {
    std::vector<char> piece(piece_bytes);
    const auto start = std::chrono::steady_clock::now();
    bytes = 0;
    for (const std::string& path : paths) bytes += open_file(path).read_all(piece);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

read_speed read_plainly(const std::string& folder, fs::file_time_type since) {
    const std::vector<std::string> paths = files_below(folder, since);
    read_speed found;
    if (paths.empty()) return found;
    bool dropped = true;
    for (const std::string& path : paths) dropped = open_file(path).leave_page_cache() && dropped;
    const double from_disk = read_once(paths, found.bytes);
    if (dropped) found.disk_s = from_disk;
    found.cached_s = from_disk;
    for (int i = 0; i < passes; ++i)
        found.cached_s = std::min(found.cached_s, read_once(paths, found.bytes));
    return found;
}

}  // namespace semantic::bench
