// SPDX-License-Identifier: Apache-2.0
#pragma once
// The f16 rows of the tokens just before a query: of the group that contains it, by absolute
// position (kv_recipe::wide_tail). Later groups read the packed rows of the same tokens. A block
// that ends inside a group keeps the rows of that group, so that a sequence that continues after
// the block reads the same values as its writer. Owner: a running sequence until it shares its
// blocks, then their holders together; shared rows are immutable. Thread: one that writes, or any
// that read.

#include <cstddef>
#include <memory>
#include <vector>

#include "storage/pool/kv_layout.hpp"
#include "storage/types/errc.hpp"

namespace semantic::storage {

class block_pool;

/// The f16 rows of one layer: for each head `room` consecutive rows, one for each token of a group.
struct wide_rows {
    std::byte* keys = nullptr;    // [kv_heads, room, k_dim]
    std::byte* values = nullptr;  // [kv_heads, room, v_dim]
    int room = 0;

    std::byte* key(const kv_layer& layer, int head, int row) const {
        return keys + offset(layer.k_dim, head, row);
    }
    std::byte* value(const kv_layer& layer, int head, int row) const {
        return values + offset(layer.v_dim, head, row);
    }

  private:
    std::size_t offset(int dim, int head, int row) const {
        return (static_cast<std::size_t>(head) * static_cast<std::size_t>(room) +
                static_cast<std::size_t>(row)) *
               static_cast<std::size_t>(dim) * 2;
    }
};

class wide_tail {
  public:
    /// Takes frames for the f16 rows of one group of tokens, in every layer of the part. Contents
    /// are unspecified. Requires: the layout has wide tails. Errors: pool_exhausted.
    static result<std::shared_ptr<wide_tail>> make(block_pool& pool, kv_part part);
    ~wide_tail();
    wide_tail(const wide_tail&) = delete;
    wide_tail& operator=(const wide_tail&) = delete;

    /// Returns: the rows of a layer, which must not be written where the tail is shared. Requires:
    /// the layer is one of the part.
    wide_rows rows(int layer) const;
    /// Copies all rows of `from`. Requires: same pool and part.
    void copy_from(const wide_tail& from);

  private:
    wide_tail(block_pool& pool, kv_part part, std::vector<std::byte*> frames)
        : pool_(pool), part_(part), frames_(std::move(frames)) {}
    block_pool& pool_;
    kv_part part_;
    std::vector<std::byte*> frames_;
};

}  // namespace semantic::storage
