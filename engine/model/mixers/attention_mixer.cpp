// SPDX-License-Identifier: Apache-2.0
#include "engine/model/mixers/attention_mixer.hpp"

#include <algorithm>
#include <cstring>

#include "engine/model/mixers/gates.hpp"
#include "engine/types/area.hpp"
#include "storage/types/as_size.hpp"

namespace semantic::engine {

using storage::as_size;

namespace {

std::vector<int> number_kv_layers(const model_config& config) {
    std::vector<int> numbers;
    for (int layer = 0; layer < static_cast<int>(config.layers.size()); ++layer)
        numbers.push_back(config.kv_layer(layer));
    return numbers;
}

}  // namespace

attention_mixer::attention_mixer(const pass_context& context, const storage::kv_layout& layout,
                                 const key_statistics& keys, int rows_max)
    : context_(context),
      layout_(layout),
      kv_layers_(number_kv_layers(context.config)),
      gate_step_(context.config.attention_gate ? 2 : 1),
      wide_store_(layout, rows_max),
      row_store_(context.config, layout, context.kernels, keys, wide_store_),
      ones_(context.config.value_norm ? as_size(context.config.head_dim) : 0, 1.0f),
      gates_(context.config.attention_gate
                 ? area(rows_max, context.config.heads * context.config.head_dim)
                 : 0) {
    make_kinds(rows_max);
    if (context.config.latent.rank > 0) {
        latent_ =
            std::make_unique<latent_heads>(context, layout, row_store_, kinds_.front()->queries);
        return;
    }
    int widest = 0;
    for (int layer = 0; layer < static_cast<int>(kv_layers_.size()); ++layer)
        if (kv_layer(layer) >= 0)
            widest = std::max(widest, widths_of(layer).queries + 2 * widths_of(layer).keys);
    qkv_ = aligned_buffer<float>(area(context.panel_rows, widest));
}

/// Finds the different shapes of heads among the layers, and makes the buffers of each shape once.
void attention_mixer::make_kinds(int rows_max) {
    const model_config& config = context_.config;
    for (const int kv_layer : kv_layers_) {
        kind_numbers_.push_back(-1);
        if (kv_layer < 0) continue;
        const storage::kv_layer& heads = layout_.layer(kv_layer);
        const int key_dim = layout_.k(kv_layer).dim, value_dim = layout_.v(kv_layer).dim;
        const auto found = std::find_if(kinds_.begin(), kinds_.end(), [&](const auto& each) {
            return each->kv_heads == heads.kv_heads && each->queries.dim() == key_dim &&
                   each->value_dim == value_dim;
        });
        kind_numbers_.back() = static_cast<int>(found - kinds_.begin());
        if (found != kinds_.end()) continue;
        const int group = config.heads / heads.kv_heads;
        kinds_.push_back(std::make_unique<head_kind>(head_kind{
            heads.kv_heads, config.latent.rank > 0 ? config.head_dim : key_dim, group, value_dim,
            query_rows(heads.kv_heads, group, key_dim, rows_max, layout_.recipe().k.bits != 16),
            attention(context_.kernels, context_.tasks, layout_, kv_layer, group,
                      config.attention_scale, rows_max, row_store_.means(), wide_store_)}));
        width_max_ = std::max(width_max_, config.heads * value_dim);
    }
}

attention_mixer::widths attention_mixer::widths_of(int layer) const {
    const head_kind& heads = kind_of(layer);
    return {context_.config.heads * heads.head_dim * gate_step_, heads.kv_heads * heads.head_dim};
}

void attention_mixer::project(int layer, attention_parts parts) {
    for (int begin = 0; begin < context_.rows.count(); begin += context_.panel_rows) {
        const int end = std::min(begin + context_.panel_rows, context_.rows.count());
        if (latent_ != nullptr) {
            latent_->project_panel(layer, kv_layer(layer), begin, end, parts);
        } else {
            project_panel(layer, begin, end, parts);
        }
    }
}

void attention_mixer::project_panel(int layer, int begin, int end, attention_parts parts) {
    const layer_weights& w = context_.layer(layer);
    const auto [q_width, kv_width] = widths_of(layer);
    const int count = end - begin;
    const bool values_from_keys = context_.kind(layer).values_from_keys;
    const bool queries = parts.queries;
    // A layer that reads another one's keys and values has no matrices for them.
    const bool keys_and_values = parts.keys_and_values && context_.config.stores_kv(layer);
    float* q = qkv_.data();
    float* k = q + area(context_.panel_rows, q_width);
    float* v = k + area(context_.panel_rows, kv_width);
    const linear_job jobs[] = {{.weights = &w.q.matrix, .y = q, .ldy = as_size(q_width)},
                               {.weights = &w.k.matrix, .y = k, .ldy = as_size(kv_width)},
                               {.weights = &w.v.matrix, .y = v, .ldy = as_size(kv_width)}};
    const std::size_t query_jobs = queries ? 1 : 0;
    const std::size_t stored = !keys_and_values ? 0 : values_from_keys ? 1 : 2;  // jobs of k and v
    // The jobs of q, k and v are neighbours, so those that are wanted are a part of the list.
    const auto wanted = std::span(jobs).subspan(1 - query_jobs, query_jobs + stored);
    if (wanted.empty()) return;
    // Rounding of activations is compensated for K and V only: there an error may move an element
    // to the next of 16 levels. That halves the error of the logits with 4-bit KV (8.3 % to 4.2 %
    // on 8-bit weights), at the cost of a second pass over the smallest matrices.
    context_.products.multiply_layer(wanted, wanted.last(stored),
                                     context_.stream.read_normed(begin, end, w.mixer_norm), count);
    if (queries) context_.products.add_bias(w.q, q, count);
    if (keys_and_values) {
        context_.products.add_bias(w.k, k, count);
        if (values_from_keys) std::copy_n(k, area(count, kv_width), v);
        context_.products.add_bias(w.v, v, count);
    }
    // In some recipes keys are shaped: later elements of a key compensate the rounding error of
    // each. That kernel rounds shaped_keys_max keys side by side, so a task takes as many rows as
    // have that many keys.
    const int together = layout_.k(kv_layer(layer)).shaped
                             ? std::max(1, shaped_keys_max / kind_of(layer).kv_heads)
                             : 1;
    const int row_groups = (count + together - 1) / together;
    const bool joint = context_.config.joint_qk_norm;  // one norm over all heads of a row
    context_.tasks.for_rows(0, row_groups, 4 * together * (q_width + 2 * kv_width), [&](int part) {
        const int first = part * together, last = std::min(first + together, count);
        for (int i = first; joint && i < last; ++i) {
            if (queries) norm(q + area(i, q_width), w.q_norm);
            if (keys_and_values) norm(k + area(i, kv_width), w.k_norm);
        }
        if (queries)
            for (int i = first; i < last; ++i) place_query(layer, begin + i, q + area(i, q_width));
        if (keys_and_values)
            append(layer, begin + first, begin + last, k + area(first, kv_width),
                   v + area(first, kv_width));
    });
}

void attention_mixer::norm(float* x, const std::vector<float>& weight) const {
    const model_config& config = context_.config;
    context_.kernels.rms_norm(x, weight.data(), x, static_cast<int>(weight.size()), config.norm_eps,
                              config.norm_one_plus);
}

/// Prepares one row's queries for attend(): norm, rope, rotation, quantisation. `q`: for each head
/// its query, and with gated attention its gate, which is kept as a sigmoid.
void attention_mixer::place_query(int layer, int row, const float* q) {
    const model_config& config = context_.config;
    const layer_weights& w = context_.layer(layer);
    head_kind& heads = kind_of(layer);
    const int dim = heads.head_dim;
    const bool captures = captured_.wants_queries() && config.stores_kv(layer);
    for (int kv_head = 0; kv_head < heads.kv_heads; ++kv_head) {
        float* to = heads.queries.at(kv_head, row);
        for (int i = 0; i < heads.group; ++i) {
            const int head = kv_head * heads.group + i;
            const float* from = q + area(head, dim * gate_step_);
            float* query = to + area(i, dim);
            std::memcpy(query, from, as_size(dim) * sizeof(float));
            if (config.attention_gate) {
                float* gate = gates_.data() + area(row * config.heads + head, dim);
                std::memcpy(gate, from + dim, as_size(dim) * sizeof(float));
                sigmoid(context_.kernels, gate, as_size(dim));
            }
            if (config.qk_norm) norm(query, w.q_norm);
            if (captures) captured_.take_query(kv_layer(layer), row, head, query);
            context_.rows.angles().turn(context_.kernels, layer, row, query);
            if (const float scale = context_.rows.angles().query_scale(layer, row); scale != 1.0f)
                for (int j = 0; j < dim; ++j) query[j] *= scale;
            row_store_.rotate(layout_.k(kv_layer(layer)), query);
        }
        heads.queries.quantize(context_.kernels, kv_head, row);
    }
}

/// Normalises, rotates and stores the keys and values of the rows [begin, end). Overwrites k and v.
void attention_mixer::append(int layer, int begin, int end, float* k, float* v) {
    const model_config& config = context_.config;
    const int stored = kv_layer(layer);
    const int kv_heads = kind_of(layer).kv_heads, dim = kind_of(layer).head_dim;
    row_store::key_batch keys(row_store_, stored);
    for (int row = begin; row < end; ++row) {
        const row_store::token at = token_at(row);
        for (int head = 0; head < kv_heads; ++head) {
            const std::size_t from = area((row - begin) * kv_heads + head, dim);
            float* key = k + from;
            if (config.qk_norm) norm(key, context_.layer(layer).k_norm);
            captured_.take_key(stored, row, head, key);
            context_.rows.angles().turn(context_.kernels, layer, row, key);
            keys.add(at, head, key);
            if (config.value_norm)
                context_.kernels.rms_norm(v + from, ones_.data(), v + from, dim, config.norm_eps,
                                          false);
            row_store_.store(at, stored, layout_.v(stored), head, v + from);
        }
    }
    keys.finish();
}

void attention_mixer::attend(int layer, float* attended) {
    const int stored = kv_layer(layer), wide = width(layer);
    head_kind& heads = kind_of(layer);
    heads.attend.run(stored, context_.rows.spans(), heads.queries, context_.layer(layer).sinks,
                     attended);
    // Values are stored rotated. Rotation is linear, so their weighted sum is rotated back once.
    if (layout_.v(stored).rotated) {
        const int step = latent_ != nullptr ? group_size : heads.value_dim;
        context_.tasks.for_rows(0, context_.rows.count(), wide, [&](int row) {
            float* x = attended + area(row, wide);
            for (int i = 0; i < wide; i += step) context_.kernels.rotate_back(x + i, step);
        });
    }
    if (context_.config.attention_gate) apply_gates(wide, attended);
}

void attention_mixer::apply_gates(int wide, float* attended) const {
    context_.tasks.for_rows(0, context_.rows.count(), wide, [&](int row) {
        float* x = attended + area(row, wide);
        const float* gate = gates_.data() + area(row, wide);
        for (int i = 0; i < wide; ++i) x[i] *= gate[i];
    });
}

float* attention_mixer::expand(int layer, int begin, int end, float* attended) {
    float* rows = attended + area(begin, width(layer));
    return latent_ == nullptr ? rows : latent_->expand(layer, rows, end - begin);
}

}  // namespace semantic::engine
