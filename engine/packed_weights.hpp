// SPDX-License-Identifier: Apache-2.0
#pragma once
// Sets up where a model's packed weights (matrices in the layout of the kernels) are kept on disk,
// so that the next start maps them. Owner: engine.cpp.

#include <memory>
#include <optional>

#include "engine/load_engine.hpp"
#include "engine/model/packed/packed_folder.hpp"
#include "engine/model/packed/weight_loading.hpp"
#include "storage/agents/agent_cache_store.hpp"

namespace semantic::engine {

/// Lives while a model is loaded. Thread: one.
class packed_weights {
  public:
    /// `form`: what matrices are quantised to. `share`: counts the bytes of the cache directory,
    /// where the folder is; null if nothing else uses that directory.
    packed_weights(const engine_options& options, const weight_storage& disk, weight_form form,
                   std::shared_ptr<storage::directory_share> share);
    /// The settings for transformer::load(); valid as long as this.
    const weight_loading& loading() const noexcept { return loading_; }

  private:
    std::optional<packed_folder> folder_;
    weight_loading loading_;
};

/// Reports how the weights were loaded to disk.on_loaded, and a fault to options.on_warning.
void report_origin(const engine_options& options, const weight_storage& disk,
                   const weights_origin& origin);

}  // namespace semantic::engine
