// SPDX-License-Identifier: Apache-2.0
#pragma once
// Rounds rows of keys and values by the KV recipe and writes them into their pool frames. A row is
// always read from its frame, also in the step that writes it, so that a fresh token and a restored
// one give the same bits. Owner: transformer. Thread: immutable; different rows may be stored at
// the same time.

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
    /// A token of a step: its sequence, whose frames its rows go to, and its position.
    struct token {
        const step_part* part;
        int position;
    };

    /// All references must outlive this, except for `keys`, which is copied as far as the recipe
    /// needs it.
    row_store(const model_config& config, const storage::kv_layout& layout,
              const kernel_table& kernels, const key_statistics& keys, wide_store& wide);

    /// The means that are subtracted from keys; null if the recipe does not centre keys.
    const key_means* means() const noexcept { return means_.get(); }

    /// Rotates a head's query, key or value x [region.dim], if the recipe stores the region rotated
    /// (kernel_table::rotate, which evens out elements before rounding). Latents are rotated in
    /// groups, so that the values among a key's elements are rotated separately.
    void rotate(const storage::kv_region& region, float* x) const;

    /// Stores a head's value [region.dim], or a latent, which is key and value; overwrites it.
    void store(const token& at, int layer, const storage::kv_region& region, int head,
               float* values) const;

    /// Stores keys of a layer. Shaped keys are collected and rounded several at a time, which is
    /// faster.
    class key_batch {
      public:
        key_batch(const row_store& store, int layer) : store_(store), layer_(layer) {}
        /// Adds a key after rope [head_dim]. It is overwritten, and must stay in memory until
        /// finish().
        void add(const token& at, int head, float* key);
        /// Writes the keys that are still collected.
        void finish();

      private:
        const row_store& store_;
        int layer_;
        int count_ = 0;
        shaped_key waiting_[shaped_keys_max];
    };

  private:
    /// The addresses of one row of one head in its frame.
    struct place {
        std::byte* packed;
        half *scales, *biases;
    };
    place place_of(const token& at, int layer, const storage::kv_region& region, int head) const;
    /// Rounds a row x [region.dim] by the region's recipe and writes it, with its scales and
    /// biases, to the token's place in the layer's frame. x must be ready to be stored: a key after
    /// rope and less its mean, rotated if the region is. Not for shaped keys.
    void round(const token& at, int layer, const storage::kv_region& region, int head,
               const float* x) const;
    enum class kind { key, value };
    /// Also keeps the row as f16 if the layout has a wide tail.
    void keep_wide(const token& at, int layer, kind rows, int head, const float* x) const;

    const storage::kv_layout& layout_;
    const kernel_table& kernels_;
    wide_store& wide_;
    int latent_step_;  // elements that are rotated together, for latent attention; else 0
    std::unique_ptr<const key_means> means_;
    std::unique_ptr<const key_shaping> shaping_;  // null: keys are not shaped
};

}  // namespace semantic::engine
