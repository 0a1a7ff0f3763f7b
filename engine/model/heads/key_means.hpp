// SPDX-License-Identifier: Apache-2.0
#pragma once
// The mean key of each head, which is subtracted from keys before they are rounded ("centred"
// keys). Subtracting one vector from all keys of a head changes all scores of a query by the same
// amount, which the softmax cancels; so nothing is added back, and the few levels of a rounding
// cover a smaller range. The mean is measured once for a model, not for a conversation, so that a
// key is stored the same whatever the other tokens are. Prior art: KIVI (arXiv:2402.02750) and
// KVQuant (arXiv:2401.18079). Owner: transformer. Thread: immutable; safe to share.

#include <cstddef>
#include <span>
#include <vector>

#include "engine/kernels/kernels.hpp"
#include "engine/model/config/model_config.hpp"
#include "engine/model/heads/layer_heads.hpp"

namespace semantic::engine {

class key_means {
  public:
    /// `means`: of keys before rope, layer after layer [kv_heads, dim], count() numbers. The mean
    /// after rope depends on the position; its average over the first positions of a context is
    /// used. Requires: no latent attention.
    key_means(const model_config& config, const kernel_table& kernels,
              std::span<const float> means);

    /// The number of elements of `means`.
    static std::size_t count(const model_config& config) {
        std::size_t numbers = 0;
        for (const layer_heads& layer : heads_of_layers(config)) numbers += layer.keys();
        return numbers;
    }

    /// Subtracts the head's mean from a key after rope [dim]. `layer`: its number in the KV layout.
    void subtract(int layer, int kv_head, float* key) const;
    /// Returns: the dot product of a rotated query [dim] with the mean, by which all its scores are
    /// lower. A head's attention sink has to be lowered by as much.
    float lost(int layer, int kv_head, const float* rotated_query) const;

  private:
    /// Index of the head's first element.
    std::size_t at(const layer_heads& layer, int kv_head) const {
        return layer.keys_before +
               static_cast<std::size_t>(kv_head) * static_cast<std::size_t>(layer.dim);
    }
    const layer_heads& heads(int layer) const { return layers_[static_cast<std::size_t>(layer)]; }

    std::vector<layer_heads> layers_;
    std::vector<float> centres_;  // means after rope, layer after layer [kv_heads, dim]
    std::vector<float> rotated_;  // the same after kernel_table::rotate()
};

}  // namespace semantic::engine
