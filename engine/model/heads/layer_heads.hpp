// SPDX-License-Identifier: Apache-2.0
#pragma once
// The shapes of the heads of the layers that store keys and values, and where each layer's numbers
// lie in arrays over all layers. Plain data; thread: any.

#include <cstddef>
#include <vector>

#include "engine/model/config/model_config.hpp"

namespace semantic::engine {

struct layer_heads {
    int kv_heads = 0;
    int heads = 0;  // of queries
    int dim = 0;    // of a head
    rope_parameters rope;
    std::size_t first_head = 0;      // number of KV heads of all layers before
    std::size_t keys_before = 0;     // elements of one key of each of these heads
    std::size_t queries_before = 0;  // the same for queries

    /// Elements of one token's keys, and of its queries, over all heads of the layer.
    std::size_t keys() const {
        return static_cast<std::size_t>(kv_heads) * static_cast<std::size_t>(dim);
    }
    std::size_t queries() const {
        return static_cast<std::size_t>(heads) * static_cast<std::size_t>(dim);
    }
};

/// The layers that store keys and values, in the order of the KV layout. Requires: no latent
/// attention.
inline std::vector<layer_heads> heads_of_layers(const model_config& config) {
    std::vector<layer_heads> all;
    layer_heads next;
    for (int i = 0; i < static_cast<int>(config.layers.size()); ++i) {
        if (!config.stores_kv(i)) continue;
        const layer_config& layer = config.layers[static_cast<std::size_t>(i)];
        next.kv_heads = config.kv_heads_of(layer);
        next.heads = config.heads;
        next.dim = config.head_dim_of(layer);
        next.rope = layer.rope;
        all.push_back(next);
        next.first_head += static_cast<std::size_t>(next.kv_heads);
        next.keys_before += next.keys();
        next.queries_before += next.queries();
    }
    return all;
}

}  // namespace semantic::engine
