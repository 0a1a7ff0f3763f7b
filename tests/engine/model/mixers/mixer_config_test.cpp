// SPDX-License-Identifier: Apache-2.0
// What layers without attention keep, and which layers have K and V.

#include <gtest/gtest.h>

#include "engine/model/config/model_config.hpp"

namespace semantic::engine {
namespace {

layer_config layer_of(mixer_kind mixer) {
    layer_config layer;
    layer.mixer = mixer;
    return layer;
}

model_config hybrid_config() {
    model_config config;
    config.kv_heads = 2;
    config.head_dim = 64;
    config.recurrence = {2, 4, 64, 64};
    config.convolution = {4, 512};
    for (const mixer_kind mixer : {mixer_kind::delta_rule, mixer_kind::attention, mixer_kind::none,
                                   mixer_kind::delta_rule, mixer_kind::attention})
        config.layers.push_back(layer_of(mixer));
    return config;
}

TEST(recurrent_state, of_a_model_of_attention_layers_is_empty) {
    model_config config;
    config.layers.resize(3);
    EXPECT_EQ(config.state_bytes(), 0u);
    EXPECT_EQ(config.state_identity(), "");
    EXPECT_EQ(config.kv_layers(), 3);
    EXPECT_EQ(config.kv_layer(2), 2);
}

TEST(recurrent_state, has_each_layers_matrices_and_then_its_columns) {
    const auto regions = hybrid_config().state_regions();
    const std::size_t matrices = 4 * 64 * 64 * 4, columns = 3 * 512 * 4;
    ASSERT_EQ(regions.size(), 5u);
    EXPECT_EQ(regions[0].matrices, 0u);
    EXPECT_EQ(regions[0].columns, matrices);
    EXPECT_EQ(regions[0].end, matrices + columns);
    EXPECT_EQ(regions[3].matrices, regions[0].end);
    EXPECT_EQ(regions[3].columns, regions[0].end + matrices);
    EXPECT_EQ(hybrid_config().state_bytes(), 2 * (matrices + columns));
}

TEST(recurrent_state, has_parts_that_begin_at_multiples_of_64_bytes) {
    model_config config = hybrid_config();
    config.recurrence = {1, 3, 5, 7};
    config.convolution = {4, 11};
    const std::size_t each = (3 * 5 * 7 + 3 * 11) * 4;
    EXPECT_EQ(config.state_regions()[0].end, (each + 63) / 64 * 64);
    EXPECT_EQ(config.state_bytes(), 2 * ((each + 63) / 64 * 64));
}

TEST(recurrent_state, of_short_convolutions_is_their_columns_alone) {
    model_config config = hybrid_config();
    config.convolution = {3, 128};
    for (layer_config& layer : config.layers)
        if (layer.mixer == mixer_kind::delta_rule) layer.mixer = mixer_kind::short_convolution;
    EXPECT_EQ(config.state_bytes(), 2u * 2 * 128 * 4);
}

TEST(recurrent_state, of_another_shape_or_order_of_layers_has_another_identity) {
    const std::string identity = hybrid_config().state_identity();
    model_config other = hybrid_config();
    other.recurrence.value_heads = 8;
    EXPECT_NE(other.state_identity(), identity);
    other = hybrid_config();
    other.convolution.taps = 3;
    EXPECT_NE(other.state_identity(), identity);
    other = hybrid_config();
    std::swap(other.layers[0], other.layers[1]);
    EXPECT_NE(other.state_identity(), identity);
}

TEST(kv_layout_of_a_hybrid, has_its_attention_layers_alone) {
    const model_config config = hybrid_config();
    EXPECT_EQ(make_kv_layout(config, 16, 256).layer_count(), 2);
    EXPECT_EQ(config.kv_layers(), 2);
    const int expected[] = {-1, 0, -1, -1, 1};
    for (int layer = 0; layer < 5; ++layer) EXPECT_EQ(config.kv_layer(layer), expected[layer]);
}

}  // namespace
}  // namespace semantic::engine
