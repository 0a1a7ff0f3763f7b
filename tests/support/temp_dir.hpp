// SPDX-License-Identifier: Apache-2.0
#pragma once
// A new directory for one test, removed with its content at the end.

#include <string>

namespace semantic::tests {

class temp_dir {
  public:
    temp_dir();
    ~temp_dir();
    temp_dir(const temp_dir&) = delete;
    temp_dir& operator=(const temp_dir&) = delete;

    const std::string& path() const noexcept { return path_; }
    /// The path of `name` inside the directory.
    std::string operator/(const std::string& name) const { return path_ + "/" + name; }

  private:
    std::string path_;
};

}  // namespace semantic::tests
