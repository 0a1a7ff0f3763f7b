// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where the rounding errors of keys go. A query q reads of an error e of a key the product q·e;
// over the queries of a head that is e' C e in the mean, with C their second moment. Taken apart as
// C = U D U', U with ones in its diagonal and nothing below it, this is a sum of
// D[j] (e[j] + sum over i < j of U[i][j] e[i])^2: so when element j is rounded, what the elements
// before it have done can be made up for, and the errors that remain lie where queries do not look
// (the rounding of GPTQ, arXiv:2210.17323, of keys instead of weights). 6-bit keys alone then cost
// two published models a half and an eighth of the divergence. Only what is written changes.
// Owner: transformer. Thread: immutable; safe to share.

#include <cstddef>
#include <span>
#include <vector>

#include "engine/model/config/model_config.hpp"
#include "engine/model/heads/layer_heads.hpp"

namespace semantic::engine {

/// What a model's keys and queries have in common, measured once for each model. Layers are those
/// that attend.
struct key_statistics {
    /// Of keys before rope, of each layer in turn [kv_heads, dim]; none where attention is latent.
    std::vector<float> means;
    /// U of rotated queries after rope, of each layer in turn [kv_heads, dim * (dim - 1) / 2]: what
    /// lies above its diagonal, row after row, each a number that f16 has.
    std::vector<float> feedback;
    bool operator==(const key_statistics&) const = default;
};

class key_shaping {
  public:
    /// Requires: count() of numbers; no latent attention.
    key_shaping(const model_config& config, std::span<const float> feedback);

    /// How many numbers key_statistics::feedback are.
    static std::size_t count(const model_config& config) {
        std::size_t numbers = 0;
        for (const layer_heads& layer : heads_of_layers(config))
            numbers += static_cast<std::size_t>(layer.kv_heads) * each(layer.dim);
        return numbers;
    }
    /// And those of one head.
    static std::size_t each(int dim) {
        return static_cast<std::size_t>(dim) * static_cast<std::size_t>(dim - 1) / 2;
    }

    /// As kernel_table::quantize_kv_shaped reads it.
    const float* feedback(int layer, int kv_head) const {
        const shaped_layer& its = layers_[static_cast<std::size_t>(layer)];
        return matrices_.data() + its.first + static_cast<std::size_t>(kv_head) * its.area;
    }

  private:
    struct shaped_layer {
        std::size_t first, area;  // of its matrices, and of one
    };
    std::vector<shaped_layer> layers_;
    std::vector<float> matrices_;  // of each layer in turn [kv_heads, dim, dim]
};

}  // namespace semantic::engine
