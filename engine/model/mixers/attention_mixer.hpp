// SPDX-License-Identifier: Apache-2.0
#pragma once
// Attention as the mixer of a layer: projects a step's rows to queries, keys and values, stores
// keys and values in their frames, and attends. Also for latent attention. Owner: transformer.
// Thread: one at a time, inside the arena.
//
// `layer` is the number in the model's config. Frames, recipes and captured heads are numbered by
// the layers that store K and V (model_config::kv_layer).

#include <memory>
#include <vector>

#include "engine/model/heads/head_capture.hpp"
#include "engine/model/heads/key_shaping.hpp"
#include "engine/model/heads/row_store.hpp"
#include "engine/model/heads/wide_store.hpp"
#include "engine/model/mixers/attention.hpp"
#include "engine/model/mixers/latent_heads.hpp"
#include "engine/model/pass/pass_context.hpp"
#include "storage/pool/kv_layout.hpp"

namespace semantic::engine {

class attention_mixer {
  public:
    /// `context` and `layout` outlive it. `keys`: as transformer::with_layout() gets them.
    attention_mixer(const pass_context& context, const storage::kv_layout& layout,
                    const key_statistics& keys, int rows_max);

    /// A row's width in attend()'s result, of the widest layer.
    int width_max() const noexcept { return width_max_; }

    /// Projects all rows of the step. Queries are kept for attend(); keys and values are stored in
    /// the frames, unless the layer reads those of another layer.
    void project(int layer, attention_parts parts);
    /// Attends with the queries of project(), and writes `attended` [rows, width(layer)]. Requires:
    /// project() of the same rows' queries.
    void attend(int layer, float* attended);
    /// Returns: the input of the output projection [end - begin, value_width], for the rows [begin,
    /// end) of attend()'s result: that result itself, or for latent attention its expansion.
    float* expand(int layer, int begin, int end, float* attended);

    /// transformer::capture()
    void capture(const head_capture& capture) { captured_ = capture; }
    bool captures_queries() const noexcept { return captured_.wants_queries(); }

  private:
    /// State that is shared by all layers with the same number and width of heads.
    struct head_kind {
        int kv_heads, head_dim;
        int group;      // query heads that share a KV head
        int value_dim;  // of one head in the cache
        query_rows queries;
        attention attend;
    };
    /// How many numbers one row is projected to.
    struct widths {
        int queries;  // and their gates
        int keys;     // or values
    };

    void make_kinds(int rows_max);
    head_kind& kind_of(int layer) {
        return *kinds_[static_cast<std::size_t>(kind_numbers_[static_cast<std::size_t>(layer)])];
    }
    const head_kind& kind_of(int layer) const {
        return *kinds_[static_cast<std::size_t>(kind_numbers_[static_cast<std::size_t>(layer)])];
    }
    /// A row's width in attend()'s result: the values of all heads, or their sums of latents.
    int width(int layer) const { return context_.config.heads * kind_of(layer).value_dim; }
    widths widths_of(int layer) const;
    /// project() for the rows [begin, end), at most panel_rows, of a layer without latents.
    void project_panel(int layer, int begin, int end, attention_parts parts);
    void place_query(int layer, int row, const float* q);
    void append(int layer, int begin, int end, float* k, float* v);
    /// Replaces x [weight.size()] by its RMS norm.
    void norm(float* x, const std::vector<float>& weight) const;
    /// Multiplies attend()'s result, rows of `wide` numbers, by the gates.
    void apply_gates(int wide, float* attended) const;
    /// The layer's number in the KV layout; -1 if it does not attend.
    int kv_layer(int layer) const { return kv_layers_[static_cast<std::size_t>(layer)]; }
    row_store::token token_at(int row) const {
        return {&context_.rows.part(row), context_.rows.position(row)};
    }

    const pass_context& context_;
    const storage::kv_layout& layout_;
    const std::vector<int> kv_layers_;  // see kv_layer()
    const int gate_step_;               // 2 if q_proj gives a query and a gate, else 1
    wide_store wide_store_;
    const row_store row_store_;
    head_capture captured_;
    std::vector<std::unique_ptr<head_kind>> kinds_;
    std::vector<int> kind_numbers_;  // [layers] index into kinds_; -1: the layer does not attend
    int width_max_ = 0;
    const std::vector<float> ones_;  // [head_dim] weights of value norms, which have none; or empty
    // Queries [panel_rows, heads, head_dim] (with gates twice as wide), then keys [panel_rows,
    // kv_heads, head_dim], then values as keys.
    aligned_buffer<float> qkv_;
    aligned_buffer<float> gates_;  // [rows_max, heads, head_dim] sigmoids of the gates; or empty
    std::unique_ptr<latent_heads> latent_;  // null: no latent attention
};

}  // namespace semantic::engine
