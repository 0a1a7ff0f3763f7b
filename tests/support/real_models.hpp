// SPDX-License-Identifier: Apache-2.0
#pragma once
// The published models on this machine: *.gguf in the folder that SEMANTIC_REAL_MODELS names, else
// in ~/.semantic/models, which etc/get-model.sh fills.

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

namespace semantic::tests {

inline constexpr const char* no_real_models =
    "skipped: no *.gguf in SEMANTIC_REAL_MODELS or ~/.semantic/models (etc/get-model.sh)";

inline std::filesystem::path real_models_folder() {
    const char* named = std::getenv("SEMANTIC_REAL_MODELS");
    if (named != nullptr) return named;
    const char* home = std::getenv("HOME");
    return std::filesystem::path(home == nullptr ? "" : home) / ".semantic/models";
}

/// The path of the model that etc/get-model.sh calls `name`; empty: it is not there.
inline std::string real_model(const std::string& name) {
    const auto file = real_models_folder() / (name + ".gguf");
    return std::filesystem::exists(file) ? file.string() : "";
}

/// All of them, in the order of their names.
inline std::vector<std::filesystem::path> real_models() {
    std::vector<std::filesystem::path> found;
    std::error_code none;
    for (const auto& entry : std::filesystem::directory_iterator(real_models_folder(), none))
        if (entry.path().extension() == ".gguf") found.push_back(entry.path());
    std::sort(found.begin(), found.end());
    return found;
}

}  // namespace semantic::tests
