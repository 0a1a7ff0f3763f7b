// SPDX-License-Identifier: Apache-2.0
#include "engine/model/mixers/latent_heads.hpp"

#include <algorithm>

#include "engine/types/area.hpp"
#include "storage/types/as_size.hpp"

namespace semantic::engine {

using storage::as_size;

latent_heads::latent_heads(const pass_context& context, const storage::kv_layout& layout,
                           const row_store& store, query_rows& queries)
    : context_(context),
      layout_(layout),
      store_(store),
      queries_(queries),
      q_width_(context.config.query_width()),
      latent_width_(context.config.latent.rank + context.config.latent.rope_dim),
      key_dim_(layout.k(0).dim),
      value_dim_(layout.v(0).dim),
      head_products_(context.kernels, context.tasks,
                     std::max(context.config.latent.rank, context.config.latent.plain_dim),
                     std::max(context.config.latent.rank, context.config.latent.value_dim)),
      projected_(area(context.panel_rows, q_width_ + latent_width_)),
      query_latents_(area(context.panel_rows, context.config.latent.query_rank)),
      keys_(area(context.panel_rows, key_dim_)),
      values_(area(context.panel_rows, context.config.value_width())) {}

void latent_heads::project_panel(int layer, int kv_layer, int begin, int end,
                                 attention_parts parts) {
    const model_config& config = context_.config;
    const layer_weights& w = context_.layer(layer);
    const int count = end - begin, query_rank = config.latent.query_rank;
    float* q = projected_.data();
    float* latent = q + area(context_.panel_rows, q_width_);
    // If queries have a latent of their own (query_rank > 0), the stream is projected to that
    // first, and `to_queries` reads its norm; otherwise `to_queries` reads the stream.
    const linear_job to_queries = {.weights = &w.q.matrix, .y = q, .ldy = as_size(q_width_)};
    const linear_job to_query_latents = {
        .weights = &w.q_down.matrix, .y = query_latents_.data(), .ldy = as_size(query_rank)};
    const linear_job to_latents = {
        .weights = &w.kv_down.matrix, .y = latent, .ldy = as_size(latent_width_)};
    const linear_job jobs[] = {query_rank > 0 ? to_query_latents : to_queries, to_latents};
    const std::size_t query_jobs = parts.queries ? 1 : 0,
                      latent_jobs = parts.keys_and_values ? 1 : 0;
    const auto wanted = std::span(jobs).subspan(1 - query_jobs, query_jobs + latent_jobs);
    // The rounding of activations is compensated for latents (the second list of jobs), because
    // they are rounded again when they are stored.
    context_.products.multiply_layer(wanted, wanted.last(latent_jobs),
                                     context_.stream.read_normed(begin, end, w.mixer_norm), count);
    if (parts.keys_and_values) {
        context_.products.add_bias(w.kv_down, latent, count);
        context_.tasks.for_rows(begin, end, 4 * latent_width_, [&](int row) {
            append(layer, kv_layer, row, latent + area(row - begin, latent_width_),
                   keys_.data() + area(row - begin, key_dim_));
        });
    }
    if (!parts.queries) return;
    if (query_rank > 0) {
        context_.products.add_bias(w.q_down, query_latents_.data(), count);
        context_.tasks.for_rows(0, count, query_rank, [&](int i) {
            float* x = query_latents_.data() + area(i, query_rank);
            context_.kernels.rms_norm(x, w.q_down_norm.data(), x, query_rank,
                                      latent_config::norm_eps, config.norm_one_plus);
        });
        context_.products.multiply({&to_queries, 1}, {&to_queries, 1}, query_latents_.data(),
                                   count);
    }
    place_queries(layer, kv_layer, begin, end, q);
}

/// Weight absorption (arXiv:2405.04434): multiplies each head's query with that head's key
/// up-projection, so that it can be compared with the latents themselves.
void latent_heads::place_queries(int layer, int kv_layer, int begin, int end, const float* q) {
    const latent_config& latent = context_.config.latent;
    const int head_dim = latent.plain_dim + latent.rope_dim, plain = latent.stored_rank(),
              heads = context_.config.heads;
    head_products_.run(context_.layer(layer).k_up, {q, area(1, q_width_), area(1, head_dim)},
                       end - begin,
                       {queries_.at(0, begin), area(heads, key_dim_), as_size(key_dim_)});
    context_.tasks.for_rows(begin, end, 4 * q_width_, [&](int row) {
        const float* from = q + area(row - begin, q_width_) + latent.plain_dim;
        float* to = queries_.at(0, row);
        for (int head = 0; head < heads; ++head, from += head_dim, to += key_dim_) {
            // Both parts of a stored key are padded with zeros.
            std::fill(to + latent.rank, to + plain, 0.0f);
            context_.rows.angles().turn_pairs(context_.kernels, layer, row, from, latent.rope_dim,
                                              to + plain);
            std::fill(to + plain + latent.rope_dim, to + key_dim_, 0.0f);
            store_.rotate(layout_.k(kv_layer), to);
        }
        queries_.quantize(context_.kernels, 0, row);
    });
}

/// Stores one row's latent. `latent`: the latent and the part of the key that has rope, as
/// projected. `key`: scratch [key_dim] for the key as it is stored.
void latent_heads::append(int layer, int kv_layer, int row, float* latent, float* key) {
    const int rank = context_.config.latent.rank, plain = context_.config.latent.stored_rank();
    std::fill_n(key, key_dim_, 0.0f);
    context_.kernels.rms_norm(latent, context_.layer(layer).kv_down_norm.data(), key, rank,
                              latent_config::norm_eps, context_.config.norm_one_plus);
    context_.rows.angles().turn_pairs(context_.kernels, layer, row, latent + rank,
                                      context_.config.latent.rope_dim, key + plain);
    const row_store::token at{&context_.rows.part(row), context_.rows.position(row)};
    store_.store(at, kv_layer, layout_.k(kv_layer), 0, key);
}

float* latent_heads::expand(int layer, const float* attended, int count) {
    const model_config& config = context_.config;
    head_products_.run(
        context_.layer(layer).v_up, {attended, area(config.heads, value_dim_), as_size(value_dim_)},
        count, {values_.data(), area(1, config.value_width()), area(1, config.latent.value_dim)});
    return values_.data();
}

}  // namespace semantic::engine
