// SPDX-License-Identifier: Apache-2.0
#pragma once
// A directory below TMPDIR for one run of a measurement, removed with everything in it at the end.
// Owner: the run. Errors: std::runtime_error when there is no room for it.

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <system_error>

namespace semantic::perf {

class scratch_directory {
  public:
    /// `program`: its name begins with it.
    explicit scratch_directory(const std::string& program)
        : path_((std::filesystem::temp_directory_path() / (program + "-XXXXXX")).string()) {
        if (::mkdtemp(path_.data()) == nullptr)
            throw std::runtime_error("no directory can be made: " + path_);
    }
    ~scratch_directory() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    scratch_directory(const scratch_directory&) = delete;
    scratch_directory& operator=(const scratch_directory&) = delete;

    const std::string& path() const noexcept { return path_; }

  private:
    std::string path_;
};

}  // namespace semantic::perf
