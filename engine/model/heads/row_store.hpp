// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where rows of keys and values are rounded and put into their frames, by the recipe. A row is
// written before anything reads it, so that a fresh token and a restored one are the same bytes.
// Owner: transformer. Thread: immutable; rows apart may be stored at the same time.

#include <cstddef>
#include <memory>

#include "engine/kernels/kernels.hpp"
#include "engine/model/config/model_config.hpp"
#include "engine/model/heads/key_means.hpp"
#include "engine/model/heads/key_shaping.hpp"
#include "engine/model/heads/wide_store.hpp"
#include "storage/pool/block_pool.hpp"
#include "storage/pool/kv_layout.hpp"

namespace semantic::engine {

class row_store {
  public:
    /// A token of a step: whose frames its rows go to, and where.
    struct token {
        const step_part* part;
        int position;
    };

    /// All outlive it but `keys`, of which it copies what the recipe needs.
    row_store(const model_config& config, const storage::kv_layout& layout,
              const kernel_table& kernels, const key_statistics& keys, wide_store& wide);

    /// Null where keys keep theirs.
    const key_means* means() const noexcept { return means_.get(); }

    /// One query, key or value x [region.dim] of a head, where the recipe has it rotated. Latents
    /// are rotated group by group, so that the values among a key's elements are rotated by
    /// themselves.
    void rotate(const storage::kv_region& region, float* x) const;

    /// A value of a head, or a latent that is both. Overwrites `values` [region.dim].
    void store(const token& at, int layer, const storage::kv_region& region, int head,
               float* values) const;

    /// Keys of a layer on their way: those that are shaped are rounded some at a time.
    class key_batch {
      public:
        key_batch(const row_store& store, int layer) : store_(store), layer_(layer) {}
        /// A key after rope [head_dim], which it overwrites and which stays until finish().
        void add(const token& at, int head, float* key);
        /// After this all are in their frames.
        void finish();

      private:
        const row_store& store_;
        int layer_;
        int count_ = 0;
        shaped_key waiting_[shaped_keys_max];
    };

  private:
    /// Of one row of one head in its frame.
    struct place {
        std::byte* packed;
        half *scales, *biases;
    };
    place place_of(const token& at, int layer, const storage::kv_region& region, int head) const;
    /// Rounds a row x [region.dim] by the region's recipe and writes it, with its scales and
    /// biases, to where the layer's frame has the token's row of this head. x is as attention is to
    /// read it: a key after rope and less its mean, rotated where the region is. Not for keys whose
    /// errors are shaped.
    void round(const token& at, int layer, const storage::kv_region& region, int head,
               const float* x) const;
    enum class kind { key, value };
    void keep_wide(const token& at, int layer, kind rows, int head, const float* x) const;

    const storage::kv_layout& layout_;
    const kernel_table& kernels_;
    wide_store& wide_;
    int latent_step_;  // elements that are rotated together where attention is latent, else 0
    std::unique_ptr<const key_means> means_;
    std::unique_ptr<const key_shaping> shaping_;  // null where keys are not shaped
};

}  // namespace semantic::engine
