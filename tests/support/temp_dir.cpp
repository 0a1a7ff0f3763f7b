// SPDX-License-Identifier: Apache-2.0
#include "tests/support/temp_dir.hpp"

#include <cstdlib>
#include <filesystem>
#include <stdexcept>

namespace semantic::tests {

namespace {

/// The folder for temporary directories: in memory where there is room, since tests replace small
/// files thousands of times, for which a disk would take long. TMPDIR, when set, decides.
std::filesystem::path base() {
    const std::filesystem::path memory = "/dev/shm";
    constexpr std::uintmax_t wanted_bytes = 256u << 20;
    std::error_code failed;
    const auto space = std::filesystem::space(memory, failed);
    if (std::getenv("TMPDIR") == nullptr && !failed && space.available >= wanted_bytes)
        return memory;
    return std::filesystem::temp_directory_path();
}

}  // namespace

temp_dir::temp_dir() : path_((base() / "semantic-XXXXXX").string()) {
    if (::mkdtemp(path_.data()) == nullptr) throw std::runtime_error("mkdtemp failed for " + path_);
}

temp_dir::~temp_dir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
}

}  // namespace semantic::tests
