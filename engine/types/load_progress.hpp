// SPDX-License-Identifier: Apache-2.0
#pragma once
// How far the loading of a model is.

#include <functional>
#include <string>
#include <vector>

namespace semantic::engine {

struct file_progress {
    std::string name;       // without the folder
    double fraction = 0.0;  // of what is needed of it
};

/// Gets the fraction of all source bytes that is packed, and that of each file.
using weights_progress =
    std::function<void(double fraction, const std::vector<file_progress>& files)>;

struct load_progress {
    std::string stage;                      // "reading weights", "scanning caches", ...
    double fraction = 0.0;                  // of the whole load
    std::vector<file_progress> files = {};  // the weights' while they are read, else none
};

}  // namespace semantic::engine
