// SPDX-License-Identifier: Apache-2.0
#pragma once
// Sizes of matrices that lie row after row.

#include <cstddef>

#include "storage/types/as_size.hpp"

namespace semantic::engine {

/// Elements of a matrix, and the place of row `rows` in one of `cols` columns.
/// Requires: none is negative.
inline std::size_t area(int rows, int cols) {
    return storage::as_size(rows) * storage::as_size(cols);
}

}  // namespace semantic::engine
