// SPDX-License-Identifier: Apache-2.0
#pragma once
// A count or an index as the standard library wants it. Pure.

#include <cstddef>

namespace semantic::storage {

/// Returns: `value` as a size. Requires: it is not negative.
constexpr std::size_t as_size(int value) { return static_cast<std::size_t>(value); }

}  // namespace semantic::storage
