// SPDX-License-Identifier: Apache-2.0
#pragma once
// Why stored memory could not be used to its full length. A plain value.

namespace semantic::storage {

/// Why fewer tokens were reused than the agent once had. `none` when nothing was lost.
enum class shortfall { none, evicted, corrupt, incompatible, model_changed };
const char* to_string(shortfall why) noexcept;

}  // namespace semantic::storage
