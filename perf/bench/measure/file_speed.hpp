// SPDX-License-Identifier: Apache-2.0
#pragma once
// How fast files can be read without any use of their content, to compare restoring with.

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>

namespace semantic::bench {

struct read_speed {
    std::uint64_t bytes = 0;
    double cached_s = 0;  // seconds from the page cache, the fastest of three passes
    double disk_s = 0;    // seconds after the page cache was asked to drop the files; 0: it refused
};

/// Reads the regular files below `folder` that were changed at `since` or later, one after the
/// other. Blocks. Errors: std::runtime_error that names the file or folder.
read_speed read_plainly(const std::string& folder, std::filesystem::file_time_type since);

}  // namespace semantic::bench
