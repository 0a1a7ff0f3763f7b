// SPDX-License-Identifier: Apache-2.0
#pragma once
// Shapes the rounding errors of keys so that queries notice them less ("shaped" keys). An error e
// of a key changes the score of a query q by q·e; the mean square over the queries of a head is e'
// C e, with C their second moment E[q q']. With the factors C = U D U' (U: ones in its diagonal,
// zeros below it) that is the sum over j of D[j] (e[j] + sum over i < j of U[i][j] e[i])^2. So when
// element j is rounded, it can compensate the errors of the elements before it, and the remaining
// error lies in directions in which queries have little. This is GPTQ (arXiv:2210.17323) applied to
// keys in place of weights. Only the rounding differs: stored keys are read as any others. Owner:
// transformer. Thread: immutable; safe to share.

#include <cstddef>
#include <span>
#include <vector>

#include "engine/model/config/model_config.hpp"
#include "engine/model/heads/layer_heads.hpp"

namespace semantic::engine {

/// Statistics of a model's keys and queries, measured once for each model, for the layers that
/// attend.
struct key_statistics {
    /// Means of keys before rope, layer after layer [kv_heads, dim]; empty for latent attention.
    std::vector<float> means;
    /// The matrix U of each head (see above), of rotated queries after rope: the elements above its
    /// diagonal, row after row, rounded to f16. Layer after layer [kv_heads, dim * (dim - 1) / 2].
    std::vector<float> feedback;
    bool operator==(const key_statistics&) const = default;
};

class key_shaping {
  public:
    /// `feedback`: key_statistics::feedback, count() numbers. Requires: no latent attention.
    key_shaping(const model_config& config, std::span<const float> feedback);

    /// The number of elements of key_statistics::feedback.
    static std::size_t count(const model_config& config) {
        std::size_t numbers = 0;
        for (const layer_heads& layer : heads_of_layers(config))
            numbers += static_cast<std::size_t>(layer.kv_heads) * each(layer.dim);
        return numbers;
    }
    /// The number of elements of one head.
    static std::size_t each(int dim) {
        return static_cast<std::size_t>(dim) * static_cast<std::size_t>(dim - 1) / 2;
    }

    /// A head's matrix [dim, dim] as kernel_table::quantize_kv_shaped reads it.
    const float* feedback(int layer, int kv_head) const {
        const shaped_layer& its = layers_[static_cast<std::size_t>(layer)];
        return matrices_.data() + its.first + static_cast<std::size_t>(kv_head) * its.area;
    }

  private:
    struct shaped_layer {
        std::size_t first, area;  // index of its first matrix; elements of a matrix
    };
    std::vector<shaped_layer> layers_;
    std::vector<float> matrices_;  // layer after layer [kv_heads, dim, dim]
};

}  // namespace semantic::engine
