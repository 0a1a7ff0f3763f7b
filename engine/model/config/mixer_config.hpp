// SPDX-License-Identifier: Apache-2.0
#pragma once
// The kinds of mixers, the part of a layer that combines a token with those before it: attention
// over K and V, or a recurrence with one state of fixed size. Plain data, filled by the sources of
// config/.

#include <cstddef>

namespace semantic::engine {

enum class mixer_kind {
    none,               // the layer has only a feed-forward part
    attention,          // over K and V in frames; latent if model_config::latent has a rank
    delta_rule,         // state: a matrix for each head, and the last columns of a convolution
    state_space,        // Mamba-2; state: the same
    short_convolution,  // state: the last columns of a convolution only
};

/// Whether a layer of this kind has a part in the recurrent state.
constexpr bool is_recurrent(mixer_kind kind) noexcept {
    return kind == mixer_kind::delta_rule || kind == mixer_kind::state_space ||
           kind == mixer_kind::short_convolution;
}

/// The heads of all delta_rule or state_space layers of a model. Each head of values has a matrix
/// S [key_dim, value_dim]; several share a head of keys and queries (Mamba-2: a group's B and C).
struct recurrence_config {
    int key_heads = 0;
    int value_heads = 0;
    int key_dim = 0;    // Mamba-2: the state width N
    int value_dim = 0;  // Mamba-2: the head width
    /// Which key head the value head h uses: h % key_heads (GGUF files of Qwen3.5) if true,
    /// otherwise h / (value_heads / key_heads).
    bool keys_in_turn = false;
    float step_min = 0.0f, step_max = 0.0f;  // Mamba-2: bounds of a step; a maximum of 0: none

    int key_width() const { return key_heads * key_dim; }
    int value_width() const { return value_heads * value_dim; }
    int key_head(int value_head) const {
        return keys_in_turn ? value_head % key_heads : value_head / (value_heads / key_heads);
    }
    std::size_t matrix_floats() const {
        return static_cast<std::size_t>(value_heads) * static_cast<std::size_t>(key_dim) *
               static_cast<std::size_t>(value_dim);
    }
};

/// The causal convolution of each channel by itself that all recurrent layers begin with.
struct convolution_config {
    int taps = 0;      // columns that an output depends on, its own included; 0: no convolution
    int channels = 0;  // numbers of a column
    bool has_bias = false;
    bool has_projection_biases = false;  // of short_convolution's two projections
    std::size_t column_floats() const {
        return static_cast<std::size_t>(taps > 0 ? taps - 1 : 0) *
               static_cast<std::size_t>(channels);
    }
};

/// A layer's part of the recurrent state, as offsets in bytes.
struct state_region {
    std::size_t matrices = 0;  // of the matrices S [value_heads, key_dim, value_dim], f32
    std::size_t columns = 0;   // of the convolution's last inputs [taps - 1, channels], f32
    std::size_t end = 0;       // of the next recurrent layer's part
};

}  // namespace semantic::engine
