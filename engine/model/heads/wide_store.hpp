// SPDX-License-Identifier: Apache-2.0
#pragma once
// Finds the f16 rows of the wide tail for a step. Recipes with a wide tail keep K and V of the
// latest tokens as f16, in groups of tokens: a query reads the rows of its own group there, and
// earlier tokens in the frames (storage/pool/wide_tail.hpp). The sequence owns the rows of the
// group in which the step begins and of the one in which it ends. Rows of groups in between are
// needed within the step only, for one layer at a time, and are kept here. So a step that fails
// leaves earlier rows unchanged. Owner: transformer. Thread: different rows may be written at the
// same time.

#include <cstddef>

#include "engine/model/heads/step_part.hpp"
#include "engine/model/weights/aligned_buffer.hpp"
#include "storage/pool/block_pool.hpp"
#include "storage/pool/kv_layout.hpp"

namespace semantic::engine {

class wide_store {
  public:
    /// Takes no memory if the layout has no wide tail.
    wide_store(const storage::kv_layout& layout, int rows_max);

    struct group {
        storage::wide_rows rows;
        int first = 0;  // index in `rows` of the group's first token
    };
    /// The rows of the group that `position` belongs to. Requires: part.first <= position <
    /// part.end; the layout has a wide tail.
    group at(const step_part& part, int layer, int position);

  private:
    const storage::kv_layout& layout_;
    int rows_max_;
    aligned_buffer<std::byte> between_;  // of one layer; keys, then values
};

}  // namespace semantic::engine
