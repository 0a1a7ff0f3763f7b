// SPDX-License-Identifier: Apache-2.0
#include "server/log/rotating_file.hpp"

#include <span>
#include <stdexcept>

namespace semantic::server {

rotating_file::rotating_file(storage::file_system& files, std::string path, std::uint64_t bytes_max,
                             std::size_t kept)
    : files_(files), path_(std::move(path)), bytes_max_(bytes_max), kept_(kept) {
    if (auto opened = open(); !opened)
        throw std::runtime_error("cannot write the log file: " + opened.error().what);
}

storage::result<void> rotating_file::open() {
    auto there = files_.exists(path_);
    if (!there) return there.error();
    bytes_ = 0;
    if (*there) {
        auto before = files_.open(path_);
        if (!before) return before.error();
        auto size = (*before)->size();
        if (!size) return size.error();
        bytes_ = *size;
    }
    auto opened = *there ? files_.append(path_) : files_.create(path_);
    if (!opened) return opened.error();
    file_ = std::move(*opened);
    return {};
}

void rotating_file::rotate() {
    file_.reset();
    // Files that do not exist yet give errors, which do not matter.
    if (kept_ == 0) (void)files_.unlink(path_);
    for (std::size_t i = kept_; i > 1; --i) (void)files_.rename(aside(i - 1), aside(i));
    if (kept_ > 0) (void)files_.rename(path_, aside(1));
}

void rotating_file::write_line(std::string_view line) {
    const std::string bytes = std::string(line) + "\n";
    if (bytes_ > 0 && bytes_ + bytes.size() > bytes_max_) rotate();
    if (!file_ && !open()) return;
    if (file_->write(std::as_bytes(std::span(bytes)))) bytes_ += bytes.size();
}

}  // namespace semantic::server
