// SPDX-License-Identifier: Apache-2.0
#pragma once
// How fast files can be read when nobody looks at what is in them: what restoring is held against.

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>

namespace semantic::bench {

struct read_speed {
    std::uint64_t bytes = 0;
    double cached_s = 0;  // out of the page cache, the fastest of three times
    double disk_s = 0;    // after the page cache was asked to drop them; 0: it was not
};

/// Blocks. Reads, one after the other, the regular files below `folder` that were changed at
/// `since` or later. Errors: std::runtime_error that names the file or folder.
read_speed read_plainly(const std::string& folder, std::filesystem::file_time_type since);

}  // namespace semantic::bench
