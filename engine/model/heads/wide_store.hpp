// SPDX-License-Identifier: Apache-2.0
#pragma once
// The f16 rows of a step's tokens that queries of the same group read (wide_tail.hpp in
// storage/pool). The rows of the group at the sequence's position are in the sequence, both of the
// position at which the step begins and of the one at which it ends; the rows of groups between
// them are needed within the step only, a layer at a time, and are kept here. So a step that fails
// leaves earlier rows unchanged. Owner: transformer. Thread: rows apart may be written at the same
// time.

#include <cstddef>

#include "engine/model/heads/step_part.hpp"
#include "engine/model/weights/aligned_buffer.hpp"
#include "storage/pool/block_pool.hpp"
#include "storage/pool/kv_layout.hpp"

namespace semantic::engine {

class wide_store {
  public:
    /// No memory where the layout has no wide tail.
    wide_store(const storage::kv_layout& layout, int rows_max);

    struct group {
        storage::wide_rows rows;
        int first = 0;  // the row of the group's first token
    };
    /// The rows of the group that `position` is in. Requires: first <= position < end; the layout
    /// has wide tails.
    group at(const step_part& part, int layer, int position);

  private:
    const storage::kv_layout& layout_;
    int rows_max_;
    aligned_buffer<std::byte> between_;  // of one layer; keys, then values
};

}  // namespace semantic::engine
