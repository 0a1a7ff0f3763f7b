// SPDX-License-Identifier: Apache-2.0
#pragma once
// Loading an engine whose packed weights are kept on disk.

#include <functional>
#include <memory>

#include "engine/engine.hpp"
#include "engine/types/weight_storage.hpp"

namespace semantic::engine {

/// As load_engine() in engine.hpp, which keeps no packed weights. Why they are not kept although
/// they should is said to options.on_warning.
storage::result<std::unique_ptr<engine>> load_engine(
    engine_options options, const weight_storage& disk,
    const std::function<void(load_progress)>& progress);

}  // namespace semantic::engine
