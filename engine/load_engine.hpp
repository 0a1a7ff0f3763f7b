// SPDX-License-Identifier: Apache-2.0
#pragma once
// Loads an engine whose packed weights are kept on disk.

#include <functional>
#include <memory>

#include "engine/engine.hpp"
#include "engine/types/weight_storage.hpp"

namespace semantic::engine {

/// As load_engine() in engine.hpp, with packed weights kept on disk as `disk` says. If they cannot
/// be kept, options.on_warning gets the reason, and loading goes on.
storage::result<std::unique_ptr<engine>> load_engine(
    engine_options options, const weight_storage& disk,
    const std::function<void(load_progress)>& progress);

}  // namespace semantic::engine
