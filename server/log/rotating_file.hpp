// SPDX-License-Identifier: Apache-2.0
#pragma once
// A file of bounded size for lines: beyond it FILE becomes FILE.1, that one FILE.2, and so on, and
// the oldest is removed. Readable by its owner alone.
// Owner: the log. Thread: one at a time. A write that fails loses its line: there is nowhere to
// report it.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "storage/files/file.hpp"

namespace semantic::server {

class rotating_file {
  public:
    /// Opens the file for appending. `kept`: how many older files stay. `files` outlives it. Throws
    /// std::runtime_error when it cannot be opened.
    rotating_file(storage::file_system& files, std::string path, std::uint64_t bytes_max,
                  std::size_t kept);
    /// Appends one line, after a rotation if the file would exceed its size. A failure loses the
    /// line.
    void write_line(std::string_view line);

  private:
    /// Opens the file at its end, or makes it.
    storage::result<void> open();
    /// Renames FILE to FILE.1, FILE.1 to FILE.2 and so on. The next write makes a new FILE.
    void rotate();
    /// The name of older file number `number`.
    std::string aside(std::size_t number) const { return path_ + "." + std::to_string(number); }

    storage::file_system& files_;
    std::string path_;
    std::uint64_t bytes_max_;
    std::size_t kept_;
    std::unique_ptr<storage::writable_file> file_;  // null: to be opened
    std::uint64_t bytes_ = 0;
};

}  // namespace semantic::server
