#pragma once
// Published models, where they are: SEMANTIC_REAL_MODELS names a folder of *.gguf, else
// ~/.semantic/models, which etc/get-model.sh fills.

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

namespace semantic::tests {

inline constexpr const char* no_real_models =
    "skipped: no *.gguf in SEMANTIC_REAL_MODELS or ~/.semantic/models (etc/get-model.sh)";

/// In the order of their names.
inline std::vector<std::filesystem::path> real_models() {
    namespace fs = std::filesystem;
    const char* named = std::getenv("SEMANTIC_REAL_MODELS");
    const char* home = std::getenv("HOME");
    const fs::path folder = named != nullptr
                                ? fs::path(named)
                                : fs::path(home == nullptr ? "" : home) / ".semantic/models";
    std::vector<fs::path> found;
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(folder, none))
        if (entry.path().extension() == ".gguf") found.push_back(entry.path());
    std::sort(found.begin(), found.end());
    return found;
}

}  // namespace semantic::tests
