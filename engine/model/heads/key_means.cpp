// SPDX-License-Identifier: Apache-2.0
#include "engine/model/heads/key_means.hpp"

#include "engine/model/heads/rope.hpp"
#include "storage/types/assert.hpp"

namespace semantic::engine {

key_means::key_means(const model_config& config, const kernel_table& kernels,
                     std::span<const float> means)
    : layers_(heads_of_layers(config)), centres_(means.begin(), means.end()) {
    ASSERT(config.latent.rank == 0 && means.size() == count(config));
    for (const layer_heads& layer : layers_) {
        const std::vector<float> frequencies =
            rope_frequencies(layer.rope, layer.rope.rotated(layer.dim));
        const std::size_t pairs = frequencies.size();
        for (std::size_t i = 0; i < pairs; ++i) {
            const auto [cosine, sine] =
                mean_turn(static_cast<double>(frequencies[i]), rope_mean_positions(config));
            // The head's pair after rope, averaged over the positions.
            for (int head = 0; head < layer.kv_heads; ++head) {
                float* x = centres_.data() + at(layer, head) + i;
                const double a = static_cast<double>(x[0]), b = static_cast<double>(x[pairs]);
                x[0] = static_cast<float>(layer.rope.amplitude * (a * cosine - b * sine));
                x[pairs] = static_cast<float>(layer.rope.amplitude * (b * cosine + a * sine));
            }
        }
    }
    rotated_ = centres_;
    for (const layer_heads& layer : layers_)
        for (int head = 0; head < layer.kv_heads; ++head)
            kernels.rotate(rotated_.data() + at(layer, head), layer.dim);
}

void key_means::subtract(int layer, int kv_head, float* key) const {
    const float* centre = centres_.data() + at(heads(layer), kv_head);
    for (int i = 0; i < heads(layer).dim; ++i) key[i] -= centre[i];
}

float key_means::lost(int layer, int kv_head, const float* rotated_query) const {
    const float* centre = rotated_.data() + at(heads(layer), kv_head);
    float sum = 0.0f;
    for (int i = 0; i < heads(layer).dim; ++i) sum += rotated_query[i] * centre[i];
    return sum;
}

}  // namespace semantic::engine
