// SPDX-License-Identifier: Apache-2.0
#pragma once
// Settings for storing packed weights (matrices in the layout of the kernels) on disk, and the
// report of how they were loaded.

#include <cstdint>
#include <functional>
#include <string>

namespace semantic::engine {

/// How a model's weights were loaded.
struct weights_origin {
    bool is_mapped = false;  // mapped from a file, whose pages the system may drop
    bool is_first = true;    // packed at this start, not read from an earlier start's file
    double seconds = 0.0;    // until they could be used
    std::string trouble{};   // why they could not be kept on disk; empty: no fault
};

struct weight_storage {
    bool keeps_packed = false;       // in the cache directory, so that a later start maps them
    std::uint64_t budget_bytes = 0;  // of all models' packed weights; 0: half of the disk budget
    bool verifies_all = false;       // every start checks the checksums of all bytes of the files
    std::string access = "auto";     // auto | map | read: as weights_access
    std::uint64_t copy_bytes_max = std::uint64_t{1} << 62;  // memory for a copy under auto
    /// Called when the weights are loaded, before anything else is; may be empty.
    std::function<void(const weights_origin&)> on_loaded{};
};

}  // namespace semantic::engine
