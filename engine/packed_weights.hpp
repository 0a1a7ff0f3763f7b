// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where the packed weights of an engine's model lie, as its options say. Owner: engine.cpp.

#include <memory>
#include <optional>

#include "engine/load_engine.hpp"
#include "engine/model/packed/packed_folder.hpp"
#include "engine/model/packed/weight_loading.hpp"
#include "storage/agents/agent_cache_store.hpp"

namespace semantic::engine {

/// While a model is loaded. Thread: one.
class packed_weights {
  public:
    /// `share`: of the directory that the folder lies in, where a store may be open; may be null.
    packed_weights(const engine_options& options, const weight_storage& disk, weight_form form,
                   std::shared_ptr<storage::directory_share> share);
    const weight_loading& loading() const noexcept { return loading_; }

  private:
    std::optional<packed_folder> folder_;
    weight_loading loading_;
};

/// Says how the weights came, to whom the options name.
void report_origin(const engine_options& options, const weight_storage& disk,
                   const weights_origin& origin);

}  // namespace semantic::engine
