// SPDX-License-Identifier: Apache-2.0
#pragma once
// Attention as a layer's mixer: projects a step's rows to queries, keys and values, puts keys and
// values into their frames, and attends. Latent attention, too. Owner: transformer. Thread: one at
// a time, which is in the arena.
//
// Layers are those of the model's config. Frames, recipes and captured heads count layers that
// attend alone (model_config::kv_layer).

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

    /// Of the widest layer.
    int width_max() const noexcept { return width_max_; }

    /// Of all rows of the step: queries are kept for attend(); keys and values go to the frames,
    /// unless the layer reads another one's.
    void project(int layer, attention_parts parts);
    /// `attended` [rows, width(layer)]: written. Requires: project() of the same rows' queries
    /// before.
    void attend(int layer, float* attended);
    /// What the output projection reads of the rows [begin, end) of attend()'s result
    /// [end - begin, value_width], which may be that result itself.
    float* expand(int layer, int begin, int end, float* attended);

    /// transformer::capture()
    void capture(const head_capture& capture) { captured_ = capture; }
    bool captures_queries() const noexcept { return captured_.wants_queries(); }

  private:
    /// What layers have in common whose heads are as many and as wide.
    struct head_kind {
        int kv_heads, head_dim;
        int group;      // query heads that share a KV head
        int value_dim;  // of one head in the cache
        query_rows queries;
        attention attend;
    };
    /// Numbers of what one row of a layer is projected to.
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
    /// A row's width in attend()'s result: all heads' values, or what they attended to of latents.
    int width(int layer) const { return context_.config.heads * kind_of(layer).value_dim; }
    widths widths_of(int layer) const;
    /// project() of the rows [begin, end), at most panel_rows, of a layer without latents.
    void project_panel(int layer, int begin, int end, attention_parts parts);
    void place_query(int layer, int row, const float* q);
    void append(int layer, int begin, int end, float* k, float* v);
    /// x [weight.size()]
    void norm(float* x, const std::vector<float>& weight) const;
    void apply_gates(int wide, float* attended) const;
    int kv_layer(int layer) const { return kv_layers_[static_cast<std::size_t>(layer)]; }
    row_store::token token_at(int row) const {
        return {&context_.rows.part(row), context_.rows.position(row)};
    }

    const pass_context& context_;
    const storage::kv_layout& layout_;
    const std::vector<int> kv_layers_;  // [layers], -1 where a layer does not attend
    const int gate_step_;               // rows of q_proj a head, by the length of its query
    wide_store wide_store_;
    const row_store row_store_;
    head_capture captured_;
    std::vector<std::unique_ptr<head_kind>> kinds_;
    std::vector<int> kind_numbers_;  // [layers], -1 where a layer does not attend
    int width_max_ = 0;
    const std::vector<float> ones_;  // [head_dim], or none: the weights of norms without
    // [panel_rows, heads, head_dim, and with gates as much again] of queries, then [panel_rows,
    // kv_heads, head_dim] of keys, then as much of values.
    aligned_buffer<float> qkv_;
    aligned_buffer<float> gates_;  // [rows_max, heads, head_dim], their sigmoids; or none
    std::unique_ptr<latent_heads> latent_;
};

}  // namespace semantic::engine
