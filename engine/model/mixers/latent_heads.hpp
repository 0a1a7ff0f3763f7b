// SPDX-License-Identifier: Apache-2.0
#pragma once
// The projections of multi-head latent attention (latent_config): keys and values come from one
// latent of each token, and queries are carried to it. Owner: attention_mixer. Thread: as there.

#include "engine/model/heads/row_store.hpp"
#include "engine/model/mixers/attention.hpp"
#include "engine/model/mixers/head_products.hpp"
#include "engine/model/pass/pass_context.hpp"
#include "storage/pool/kv_layout.hpp"

namespace semantic::engine {

/// Which of a layer's projections a step needs: of rows that only fill the cache no queries, of
/// those that only read it no keys and values.
struct attention_parts {
    bool queries = false;
    bool keys_and_values = false;
};

class latent_heads {
  public:
    /// All outlive it.
    latent_heads(const pass_context& context, const storage::kv_layout& layout,
                 const row_store& store, query_rows& queries);

    /// Queries of the rows [begin, end) of the step, carried to the latent, go to the query rows
    /// [1, rows, heads, key_dim]; their latents, one for all heads, to the frames of `kv_layer`,
    /// the number of `layer` among those that have any. Requires: end - begin <= panel_rows.
    void project_panel(int layer, int kv_layer, int begin, int end, attention_parts parts);
    /// Returns: all heads' values [count, value_width], from what they attended to of the latents
    /// [count, heads, stored rank], until the next call.
    float* expand(int layer, const float* attended, int count);

  private:
    void place_queries(int layer, int kv_layer, int begin, int end, const float* q);
    void append(int layer, int kv_layer, int row, float* latent, float* key);

    const pass_context& context_;
    const storage::kv_layout& layout_;
    const row_store& store_;
    query_rows& queries_;
    const int q_width_;       // of all heads' queries, as projected
    const int latent_width_;  // of a latent and the rotated piece of key
    const int key_dim_;       // of the key in the cache
    const int value_dim_;
    head_products head_products_;
    // [panel_rows, heads, plain_dim + rope_dim] of queries, then [panel_rows, latent_width], of
    // each row its latent [rank] and the piece of key that rope turns [rope_dim].
    aligned_buffer<float> projected_;
    aligned_buffer<float> query_latents_;  // [panel_rows, query rank]
    aligned_buffer<float> keys_;           // [panel_rows, key_dim]
    aligned_buffer<float> values_;         // [panel_rows, heads, value_dim of the config]
};

}  // namespace semantic::engine
