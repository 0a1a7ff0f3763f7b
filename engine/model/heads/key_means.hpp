// SPDX-License-Identifier: Apache-2.0
#pragma once
// The mean of the keys of a head: a model's key bias and any other constant part. Subtracting one
// vector from all keys of a head changes all scores of a query alike, which the softmax cancels; so
// keys are stored less that mean, where the few levels of a rounding reach further, and nothing is
// added back. The mean is a model's, not a conversation's, so that a key is stored alike whatever
// the other tokens are. Prior art: KIVI (arXiv:2402.02750) and KVQuant (arXiv:2401.18079) centre
// keys by what they hold. Owner: transformer. Thread: immutable; safe to share.

#include <cstddef>
#include <span>
#include <vector>

#include "engine/kernels/kernels.hpp"
#include "engine/model/config/model_config.hpp"
#include "engine/model/heads/layer_heads.hpp"

namespace semantic::engine {

class key_means {
  public:
    /// `means`: of keys before rope, of each layer in turn [kv_heads, dim]; what rope makes of
    /// them differs by position and is averaged over the first positions of a context. Requires:
    /// count() of them; no latent attention.
    key_means(const model_config& config, const kernel_table& kernels,
              std::span<const float> means);

    /// How many numbers `means` are.
    static std::size_t count(const model_config& config) {
        std::size_t numbers = 0;
        for (const layer_heads& layer : heads_of_layers(config)) numbers += layer.keys();
        return numbers;
    }

    /// Subtracts the mean from a key after rope [dim]. `layer`: by the KV layout.
    void subtract(int layer, int kv_head, float* key) const;
    /// Dot product of a rotated query [dim] with the mean: what its scores lose. Where the head has
    /// a sink, the sink must lose as much.
    float lost(int layer, int kv_head, const float* rotated_query) const;

  private:
    std::size_t at(const layer_heads& layer, int kv_head) const {
        return layer.keys_before +
               static_cast<std::size_t>(kv_head) * static_cast<std::size_t>(layer.dim);
    }
    const layer_heads& heads(int layer) const { return layers_[static_cast<std::size_t>(layer)]; }

    std::vector<layer_heads> layers_;
    std::vector<float> centres_;  // after rope, of each layer in turn [kv_heads, dim]
    std::vector<float> rotated_;  // kernel_table::rotate() of them
};

}  // namespace semantic::engine
