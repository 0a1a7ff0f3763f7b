// SPDX-License-Identifier: Apache-2.0
#pragma once
// Models whose weights are loaded with a folder of packed weights, and what tests compare of them.

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "engine/model/packed/packed_folder.hpp"
#include "engine/model/weights/weights.hpp"
#include "storage/files/file.hpp"

namespace semantic::tests {

/// Of files that a test has just written.
inline engine::packed_folder_options packed_options(const std::string& directory,
                                                    std::uint64_t budget = 1 << 30) {
    engine::packed_folder_options options;
    options.directory = directory;
    options.budget_bytes = budget;
    options.settle_time = std::chrono::nanoseconds(-1'000'000'000);
    return options;
}

inline storage::result<engine::model_weights> load_packed(
    const std::string& model, engine::packed_folder& folder,
    engine::weights_access access = engine::weights_access::mapped,
    engine::weight_form form = engine::weight_form::native) {
    const auto config = engine::model_config::load(model);
    if (!config) return config.error();
    return engine::model_weights::load(model, *config, *engine::find_kernels("auto"),
                                       {form, folder, access, std::uint64_t{1} << 40}, {});
}

inline storage::result<engine::model_weights> load_plain(
    const std::string& model, engine::weight_form form = engine::weight_form::native) {
    const auto config = engine::model_config::load(model);
    if (!config) return config.error();
    return engine::model_weights::load(model, *config, *engine::find_kernels("auto"), form, {});
}

/// The packed bytes of all matrices, one after the other.
inline std::string packed_bytes(const engine::model_weights& weights) {
    std::string all;
    const auto add = [&all](const engine::packed_matrix& matrix) {
        if (matrix.data != nullptr)
            all.append(reinterpret_cast<const char*>(matrix.data), matrix.bytes());
    };
    const auto add_gated = [&](const engine::gated_weights& mlp) {
        for (const auto* each : {&mlp.gate, &mlp.up, &mlp.down}) add(each->matrix);
    };
    add(weights.embedding);
    add(weights.head);
    for (const engine::layer_weights& layer : weights.layers) {
        for (const auto* each :
             {&layer.q, &layer.k, &layer.v, &layer.o, &layer.q_down, &layer.kv_down, &layer.router})
            add(each->matrix);
        for (const auto& each : layer.k_up) add(each);
        for (const auto& each : layer.v_up) add(each);
        add_gated(layer.mlp);
        for (const auto& each : layer.experts) add_gated(each);
    }
    return all;
}

/// Paths of the files in the folder that end so.
inline std::vector<std::string> files_with(const std::string& directory,
                                           const std::string& suffix) {
    std::vector<std::string> found;
    std::error_code none;
    for (const auto& each : std::filesystem::directory_iterator(directory, none))
        if (each.path().string().ends_with(suffix)) found.push_back(each.path().string());
    return found;
}

/// Flips one bit of a file.
inline void flip_bit(const std::string& path, std::uint64_t offset) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(offset));
    const char byte = static_cast<char>(file.get() ^ 4);
    file.seekp(static_cast<std::streamoff>(offset));
    file.put(byte);
}

}  // namespace semantic::tests
