// SPDX-License-Identifier: Apache-2.0
#pragma once
// Checks whether a model can store K and V as a layout says. Pure.

#include "engine/model/config/model_config.hpp"
#include "engine/model/heads/key_shaping.hpp"
#include "storage/pool/kv_layout.hpp"
#include "storage/types/errc.hpp"

namespace semantic::engine {

/// `keys`: as transformer::with_layout() gets them. Errors: incompatible, with the reason.
storage::result<void> check_layout(const model_config& config, const storage::kv_layout& layout,
                                   const key_statistics& keys);

}  // namespace semantic::engine
