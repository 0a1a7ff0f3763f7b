#include "engine/model/heads/key_shaping.hpp"

#include <algorithm>

#include "storage/types/assert.hpp"

namespace semantic::engine {

key_shaping::key_shaping(const model_config& config, std::span<const float> feedback)
    : heads_(config.kv_heads),
      area_(static_cast<std::size_t>(config.head_dim) * static_cast<std::size_t>(config.head_dim)),
      matrices_(static_cast<std::size_t>(config.kv_layers() * heads_) * area_) {
    ASSERT(config.latent.rank == 0 && feedback.size() == count(config));
    const auto dim = static_cast<std::size_t>(config.head_dim);
    const float* from = feedback.data();
    for (std::size_t row = 0; row < matrices_.size() / dim; ++row) {
        const std::size_t first = row % dim + 1;
        std::copy_n(from, dim - first, matrices_.data() + row * dim + first);
        from += dim - first;
    }
}

}  // namespace semantic::engine
