#pragma once
// The projections of multi-head latent attention (latent_config): keys and values come from one
// latent of each token, and queries are carried to it. Owner: attention_mixer. Thread: as there.

#include "engine/model/heads/row_store.hpp"
#include "engine/model/mixers/attention.hpp"
#include "engine/model/mixers/head_products.hpp"
#include "engine/model/pass/pass_context.hpp"
#include "storage/pool/kv_layout.hpp"

namespace semantic::engine {

class latent_heads {
  public:
    /// All outlive it.
    latent_heads(const pass_context& context, const storage::kv_layout& layout,
                 const row_store& store, query_rows& queries);

    /// Queries of the rows [begin, end) go to the query rows; latents to the frames of kv_layer.
    void project_panel(int layer, int kv_layer, int begin, int end, bool queries,
                       bool keys_and_values);
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
    aligned_buffer<float> projected_;      // [panel_rows] of queries, then of latents
    aligned_buffer<float> query_latents_;  // [panel_rows, query rank]
    aligned_buffer<float> keys_;           // [panel_rows, key_dim]
    aligned_buffer<float> values_;         // [panel_rows, heads, value_dim of the config]
};

}  // namespace semantic::engine
