// SPDX-License-Identifier: Apache-2.0
#include "engine/model/heads/key_shaping.hpp"

#include <algorithm>

#include "storage/types/assert.hpp"

namespace semantic::engine {

key_shaping::key_shaping(const model_config& config, std::span<const float> feedback) {
    ASSERT(config.latent.rank == 0 && feedback.size() == count(config));
    const std::vector<layer_heads> layers = heads_of_layers(config);
    std::size_t end = 0;
    for (const layer_heads& layer : layers) {
        const auto dim = static_cast<std::size_t>(layer.dim);
        layers_.push_back({end, dim * dim});
        end += static_cast<std::size_t>(layer.kv_heads) * dim * dim;
    }
    matrices_.resize(end);
    const float* from = feedback.data();
    float* to = matrices_.data();
    // Copies what is above each diagonal; the rest of a matrix is 0.
    for (const layer_heads& layer : layers) {
        const auto dim = static_cast<std::size_t>(layer.dim);
        for (std::size_t row = 0; row < static_cast<std::size_t>(layer.kv_heads) * dim; ++row) {
            const std::size_t first = row % dim + 1;
            std::copy_n(from, dim - first, to + first);
            from += dim - first;
            to += dim;
        }
    }
}

}  // namespace semantic::engine
