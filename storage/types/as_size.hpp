// SPDX-License-Identifier: Apache-2.0
#pragma once
// A count or an index as the standard library wants it. Pure.

#include <cstddef>

namespace semantic::storage {

/// Requires: `value` >= 0.
constexpr std::size_t as_size(int value) { return static_cast<std::size_t>(value); }

}  // namespace semantic::storage
