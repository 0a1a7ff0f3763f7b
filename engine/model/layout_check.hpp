#pragma once
// Whether a model can keep K and V as a layout says. Pure.

#include <span>

#include "engine/model/config/model_config.hpp"
#include "storage/pool/kv_layout.hpp"
#include "storage/types/errc.hpp"

namespace semantic::engine {

/// `means`: as transformer::with_layout() gets them. Errors: incompatible.
storage::result<void> check_layout(const model_config& config, const storage::kv_layout& layout,
                                   std::span<const float> means);

}  // namespace semantic::engine
