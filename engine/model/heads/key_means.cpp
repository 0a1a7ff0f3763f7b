#include "engine/model/heads/key_means.hpp"

#include "engine/model/heads/rope.hpp"
#include "storage/types/assert.hpp"

namespace semantic::engine {

key_means::key_means(const model_config& config, const kernel_table& kernels,
                     std::span<const float> means)
    : heads_(config.kv_heads), dim_(config.head_dim), centres_(means.begin(), means.end()) {
    ASSERT(config.latent.rank == 0 && means.size() == count(config));
    int layer = 0;
    for (const layer_config& each : config.layers) {
        if (each.mixer != mixer_kind::attention) continue;
        const rope_parameters& rope = each.rope;
        const std::vector<float> frequencies = rope_frequencies(rope, rope.rotated(dim_));
        const std::size_t pairs = frequencies.size();
        for (std::size_t i = 0; i < pairs; ++i) {
            const auto [cosine, sine] =
                mean_turn(static_cast<double>(frequencies[i]), rope_mean_positions(config));
            for (int head = 0; head < heads_; ++head) {
                float* x = centres_.data() + at(layer, head) + i;
                const double a = static_cast<double>(x[0]), b = static_cast<double>(x[pairs]);
                x[0] = static_cast<float>(rope.amplitude * (a * cosine - b * sine));
                x[pairs] = static_cast<float>(rope.amplitude * (b * cosine + a * sine));
            }
        }
        ++layer;
    }
    rotated_ = centres_;
    for (std::size_t i = 0; i < rotated_.size(); i += static_cast<std::size_t>(dim_))
        kernels.rotate(rotated_.data() + i, dim_);
}

void key_means::subtract(int layer, int kv_head, float* key) const {
    const float* centre = centres_.data() + at(layer, kv_head);
    for (int i = 0; i < dim_; ++i) key[i] -= centre[i];
}

float key_means::lost(int layer, int kv_head, const float* rotated_query) const {
    const float* centre = rotated_.data() + at(layer, kv_head);
    float sum = 0.0f;
    for (int i = 0; i < dim_; ++i) sum += rotated_query[i] * centre[i];
    return sum;
}

}  // namespace semantic::engine
