// SPDX-License-Identifier: Apache-2.0
#pragma once
// The projections of multi-head latent attention (latent_config): each token has one latent vector
// in the cache, from which the keys and values of all heads come. Queries are multiplied into the
// space of latents, so that keys are never expanded. Owner: attention_mixer. Thread: as there.

#include "engine/model/heads/row_store.hpp"
#include "engine/model/mixers/attention.hpp"
#include "engine/model/mixers/head_products.hpp"
#include "engine/model/pass/pass_context.hpp"
#include "storage/pool/kv_layout.hpp"

namespace semantic::engine {

/// Which of a layer's projections a step needs: rows that only fill the cache need no queries, rows
/// that only read it no keys and values.
struct attention_parts {
    bool queries = false;
    bool keys_and_values = false;
};

class latent_heads {
  public:
    /// All references must outlive this.
    latent_heads(const pass_context& context, const storage::kv_layout& layout,
                 const row_store& store, query_rows& queries);

    /// Projects the rows [begin, end) of the step: writes their queries, in the space of latents,
    /// to the query rows [1, rows, heads, key_dim], and stores their latents in the frames of
    /// `kv_layer`, the layer's number in the KV layout. Requires: end - begin <= panel_rows.
    void project_panel(int layer, int kv_layer, int begin, int end, attention_parts parts);
    /// Returns: the values of all heads [count, value_width], computed from their weighted sums of
    /// latents `attended` [count, heads, stored rank]; valid until the next call.
    float* expand(int layer, const float* attended, int count);

  private:
    void place_queries(int layer, int kv_layer, int begin, int end, const float* q);
    void append(int layer, int kv_layer, int row, float* latent, float* key);

    const pass_context& context_;
    const storage::kv_layout& layout_;
    const row_store& store_;
    query_rows& queries_;
    const int q_width_;       // numbers of all heads' queries, as projected
    const int latent_width_;  // numbers of a latent and of the part of the key that has rope
    const int key_dim_;       // numbers of a key in the cache
    const int value_dim_;
    head_products head_products_;
    // Queries [panel_rows, heads, plain_dim + rope_dim], then for each row its latent [rank] and
    // the part of the key that has rope [rope_dim].
    aligned_buffer<float> projected_;
    aligned_buffer<float> query_latents_;  // [panel_rows, query rank]
    aligned_buffer<float> keys_;           // [panel_rows, key_dim]
    aligned_buffer<float> values_;         // [panel_rows, heads, value_dim of the config]
};

}  // namespace semantic::engine
