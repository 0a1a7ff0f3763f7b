// SPDX-License-Identifier: Apache-2.0
#pragma once
// A directory of its own for one test, removed with everything in it at the end.

#include <string>

namespace semantic::tests {

class temp_dir {
  public:
    temp_dir();
    ~temp_dir();
    temp_dir(const temp_dir&) = delete;
    temp_dir& operator=(const temp_dir&) = delete;

    const std::string& path() const noexcept { return path_; }
    /// Returns: the path of `name` inside the directory.
    std::string operator/(const std::string& name) const { return path_ + "/" + name; }

  private:
    std::string path_;
};

}  // namespace semantic::tests
