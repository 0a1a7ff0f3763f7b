// SPDX-License-Identifier: Apache-2.0
#pragma once
// How packed weights are stored on disk and loaded: the operators' setting, and its report.

#include <cstdint>
#include <functional>
#include <string>

namespace semantic::engine {

/// How a model's weights came into memory.
struct weights_origin {
    bool is_mapped = false;  // they are a file's pages, which the kernel may take back
    bool is_first = true;    // they were packed now, not before
    double seconds = 0.0;    // until they could be used
    std::string trouble{};   // why they are not kept on disk although they should; else empty
};

struct weight_storage {
    bool keeps_packed = false;       // in the cache directory, so that a later start maps them
    std::uint64_t budget_bytes = 0;  // of all models' packed weights; 0: half of the disk budget
    bool verifies_all = false;       // every start reads all of the files' bytes and compares
    std::string access = "auto";     // auto | map | read: as weights_access
    std::uint64_t copy_bytes_max = std::uint64_t{1} << 62;  // memory for a copy under auto
    /// Gets how they came, before anything else is loaded; may be empty.
    std::function<void(const weights_origin&)> on_loaded{};
};

}  // namespace semantic::engine
