// SPDX-License-Identifier: Apache-2.0
#pragma once
// Progress of loading a model.

#include <functional>
#include <string>
#include <vector>

namespace semantic::engine {

struct file_progress {
    std::string name;       // without the folder
    double fraction = 0.0;  // of the file's bytes that are needed
};

/// Receives which fraction of all bytes of the weights is packed, and that of each file.
using weights_progress =
    std::function<void(double fraction, const std::vector<file_progress>& files)>;

struct load_progress {
    std::string stage;                      // "reading weights", "scanning caches", ...
    double fraction = 0.0;                  // of the whole load
    std::vector<file_progress> files = {};  // the weights' while they are read, else none
};

}  // namespace semantic::engine
