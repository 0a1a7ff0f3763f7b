// SPDX-License-Identifier: Apache-2.0
#pragma once
// The whole engine on the model that comes with the tree, and prompts for it.

#include <chrono>
#include <cstddef>
#include <memory>
#include <stdexcept>
#include <string>

#include "engine/engine.hpp"

namespace semantic::tests {

inline engine::engine_options options_in(const std::string& directory) {
    engine::engine_options options;
    options.model_directory = std::string(SEMANTIC_SOURCE_DIR) + "/etc/models/semantic-tiny";
    options.cache_directory = directory;
    options.cache_budget_bytes = std::size_t{64} << 20;
    options.compute_threads = 2;
    options.kv_recipe = "4";  // no measurement at every start
    // An end says that its tokens are on the disk, however busy that is.
    options.save_wait = std::chrono::seconds(30);
    return options;
}

inline std::unique_ptr<engine::engine> load(const engine::engine_options& options) {
    auto loaded = engine::load_engine(options, {});
    if (!loaded) throw std::runtime_error(loaded.error().what);
    return std::move(*loaded);
}

/// Words enough for several blocks of 256 tokens, the same every time.
inline std::string long_paste(int sentences) {
    std::string text = "Here are my notes. ";
    for (int i = 0; i < sentences; ++i)
        text += "On day " + std::to_string(i) + " the gardener moved " +
                std::to_string(i * 7 % 100) +
                " pots to the north wall and counted the lamps again. ";
    return text;
}

}  // namespace semantic::tests
