// SPDX-License-Identifier: Apache-2.0
#include "engine/model/heads/row_store.hpp"

namespace semantic::engine {

row_store::row_store(const model_config& config, const storage::kv_layout& layout,
                     const kernel_table& kernels, const key_statistics& keys, wide_store& wide)
    : layout_(layout),
      kernels_(kernels),
      wide_(wide),
      latent_step_(config.latent.rank > 0 ? group_size : 0),
      means_(layout.recipe().k.centred ? std::make_unique<key_means>(config, kernels, keys.means)
                                       : nullptr),
      shaping_(layout.recipe().k.shaped ? std::make_unique<key_shaping>(config, keys.feedback)
                                        : nullptr) {}

void row_store::rotate(const storage::kv_region& region, float* x) const {
    if (!region.rotated) return;
    const int step = latent_step_ > 0 ? latent_step_ : region.dim;
    for (int i = 0; i < region.dim; i += step) kernels_.rotate(x + i, step);
}

void row_store::store(const token& at, int layer, const storage::kv_region& region, int head,
                      float* values) const {
    rotate(region, values);
    keep_wide(at, layer, kind::value, head, values);
    round(at, layer, region, head, values);
}

/// Queries within the row's own group of tokens read this copy. `x`: [k_dim or v_dim], rotated.
void row_store::keep_wide(const token& at, int layer, kind rows, int head, const float* x) const {
    if (!layout_.has_wide_tail()) return;
    const storage::kv_layer& each = layout_.layer(layer);
    const wide_store::group group = wide_.at(*at.part, layer, at.position);
    const int row = group.first + at.position - layout_.group_start(at.position);
    const bool is_key = rows == kind::key;
    std::byte* to = is_key ? group.rows.key(each, head, row) : group.rows.value(each, head, row);
    // Rows of 16 bits have no scales and biases.
    kernels_.quantize_kv(x, is_key ? each.k_dim : each.v_dim, 16, kv_rounding::fitted, to, nullptr,
                         nullptr);
}

void row_store::round(const token& at, int layer, const storage::kv_region& region, int head,
                      const float* x) const {
    const place to = place_of(at, layer, region, head);
    // Rotated elements have similar sizes; for these the fitted rule rounds more exactly.
    const kv_rounding rule = region.rotated ? kv_rounding::fitted : kv_rounding::mlx;
    kernels_.quantize_kv(x, region.dim, region.bits, rule, to.packed, to.scales, to.biases);
}

row_store::place row_store::place_of(const token& at, int layer, const storage::kv_region& region,
                                     int head) const {
    const int block_tokens = layout_.block_tokens(), row = at.position % block_tokens;
    const auto block = static_cast<std::size_t>(at.position / block_tokens);
    std::byte* frame = at.part->cache->frames(layer)[block];
    std::byte* scales = frame + region.scale_at(block_tokens, head, row);
    return {frame + region.row_at(block_tokens, head, row), reinterpret_cast<half*>(scales),
            reinterpret_cast<half*>(scales + (region.biases - region.scales))};
}

void row_store::key_batch::add(const token& at, int head, float* key) {
    const storage::kv_region& region = store_.layout_.k(layer_);
    if (store_.means_ != nullptr) store_.means_->subtract(layer_, head, key);
    store_.rotate(region, key);
    store_.keep_wide(at, layer_, kind::key, head, key);
    if (store_.shaping_ == nullptr) {
        store_.round(at, layer_, region, head, key);
        return;
    }
    // Shaped keys wait until shaped_keys_max of them can be rounded together.
    const place to = store_.place_of(at, layer_, region, head);
    waiting_[count_++] = {key, store_.shaping_->feedback(layer_, head), to.packed, to.scales,
                          to.biases};
    if (count_ == shaped_keys_max) finish();
}

void row_store::key_batch::finish() {
    const storage::kv_region& region = store_.layout_.k(layer_);
    if (count_ > 0) store_.kernels_.quantize_kv_shaped(waiting_, count_, region.dim, region.bits);
    count_ = 0;
}

}  // namespace semantic::engine
