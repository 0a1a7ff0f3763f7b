// SPDX-License-Identifier: Apache-2.0
#include "tests/engine/model/weights/golden_gguf.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/support/temp_dir.hpp"

namespace semantic::tests {

namespace {

const std::string golden = SEMANTIC_SOURCE_DIR "/tests/golden/";

std::string bytes_of(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    EXPECT_TRUE(file) << path;
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// Empty where a step leads out of the recipe or the weights.
std::string follow(const std::string& recipe, const std::string& weights) {
    constexpr std::size_t step_bytes = 17;
    std::string made;
    for (std::size_t at = 0; at < recipe.size();) {
        std::uint64_t first = 0, count = 0;
        if (recipe.size() - at < step_bytes) return {};
        const char kind = recipe[at];
        std::memcpy(&first, recipe.data() + at + 1, sizeof first);
        std::memcpy(&count, recipe.data() + at + 9, sizeof count);
        at += step_bytes;
        if (kind == 2) {
            if (first > recipe.size() - at) return {};
            made.append(recipe, at, first);
            at += first;
            continue;
        }
        const std::uint64_t length = kind == 0 ? count : 2 * count;
        if (first > weights.size() || length > weights.size() - first) return {};
        if (kind == 0) {
            made.append(weights, first, length);
        } else {
            for (std::uint64_t i = first; i < first + length; i += 2)
                made.append(2, '\0').append(weights, i, 2);
        }
    }
    return made;
}

}  // namespace

std::string golden_gguf(const std::string& name, const std::string& folder) {
    const std::string whole = golden + "gguf/" + name;
    if (std::filesystem::exists(whole)) return whole;
    static const temp_dir dir;
    const std::string path = dir / name;
    if (std::filesystem::exists(path)) return path;
    const std::string made =
        follow(bytes_of(golden + "gguf/" + std::filesystem::path(name).stem().string() + ".recipe"),
               bytes_of(golden + "models/" + folder + "/model.safetensors"));
    EXPECT_TRUE(made.starts_with("GGUF")) << name;
    std::ofstream(path, std::ios::binary) << made;
    return path;
}

}  // namespace semantic::tests
