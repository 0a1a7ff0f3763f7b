#pragma once
// Where the f16 rows of a step's tokens lie that queries of the same group read (wide_tail.hpp in
// storage/pool). The group that a sequence stands in when the step begins has its rows in the
// sequence, and so has the one that it will stand in; those of groups between them are needed
// within the step only, a layer at a time, and lie here. So a step leaves what was there before as
// it was, should it not come to its end. Owner: transformer. Thread: rows apart may be written at
// the same time.

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
