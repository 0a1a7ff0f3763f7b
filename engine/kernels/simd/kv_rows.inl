// Quantising of rows of keys and values. See elements.inl for how this is used.

SIMD_INLINE half to_finite_half(float value) {
    value = value > 65504.0f ? 65504.0f : value;
    return to_half(value < -65504.0f ? -65504.0f : value);
}

/// Bytes a, b, c, d, ... below 16 -> a | b << 4, c | d << 4, ...
SIMD_INLINE void pack_nibbles(const std::uint8_t* levels, std::byte* out) {
    const __m128i weights = _mm_set1_epi16(0x1001);
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {
        const auto* from = reinterpret_cast<const __m128i*>(levels + 32 * i);
        const __m128i a = _mm_maddubs_epi16(_mm_loadu_si128(from), weights);
        const __m128i b = _mm_maddubs_epi16(_mm_loadu_si128(from + 1), weights);
        _mm_storeu_si128(reinterpret_cast<__m128i*>(out + 16 * i), _mm_packus_epi16(a, b));
    }
}

SIMD void quantize_kv_group(const float* x, int bits, std::byte* row, half& scale_out,
                            half& bias_out) {
    const v16 a = load(x), b = load(x + 16), c = load(x + 32), d = load(x + 48);
    const float low = smallest(min(min(a, b), min(c, d)));
    const float high = largest(max(max(a, b), max(c, d)));
    const float steps = static_cast<float>((1 << bits) - 1);
    const bool use_low = __builtin_fabsf(low) > __builtin_fabsf(high);
    const float range = (high - low) / steps;
    float scale = range < 1e-7f ? 1e-7f : range;
    scale = use_low ? scale : -scale;
    const float edge = use_low ? low : high;
    const float zero_step = __builtin_nearbyintf(edge / scale);
    if (zero_step != 0.0f) {
        scale = edge / zero_step;
    }
    const float bias = zero_step != 0.0f ? edge : 0.0f;
    alignas(64) std::uint8_t levels[group_size];
    for (index i = 0; i < group_size; i += lane_count) {
        const v16 level = round(div(sub(load(x + i), set1(bias)), set1(scale)));
        const v16 clipped = min(max(level, set1(0.0f)), set1(steps));
        store_low_bytes(levels + i, round_to_words(clipped));
    }
    if (bits == 8) {
        __builtin_memcpy(row, levels, sizeof levels);
    } else {
        pack_nibbles(levels, row);
    }
    scale_out = to_finite_half(scale);
    bias_out = to_finite_half(bias);
}

SIMD void quantize_kv(const float* x, int dim, int bits, std::byte* row, half* scales,
                      half* biases) {
    if (bits == 16) {
        for (index i = 0; i < dim; ++i) {
            reinterpret_cast<half*>(row)[i] = to_finite_half(x[i]);
        }
        return;
    }
    for (index g = 0; g < dim / group_size; ++g) {
        quantize_kv_group(x + g * group_size, bits, row + g * group_size * bits / 8, scales[g],
                          biases[g]);
    }
}
