// SPDX-License-Identifier: Apache-2.0
// Recurrences over tokens: strips of 16 columns of a head's matrix side by side, so that the sums
// of one wait for the others' and not for themselves. Included by the kernel files of the vector
// instruction sets inside their unnamed namespace, after elements.inl.

/// The columns of `strips` strips from `first` on, of which the last has `lanes`.
template <int strips>
SIMD_INLINE void delta_columns(const recurrent_head& head, index first, int lanes) {
    const float* from = head.from + first;
    float* to = head.to + first;
    const index cols = head.cols;
    const auto lanes_of = [lanes](int strip) { return strip == strips - 1 ? lanes : lane_count; };
    for (index t = 0; t < head.tokens; ++t) {
        const float* key = head.keys + t * static_cast<index>(head.key_stride);
        const float* query = head.queries + t * static_cast<index>(head.key_stride);
        const float* value = head.values + t * static_cast<index>(head.value_stride) + first;
        float* out = head.out + t * static_cast<index>(head.out_stride) + first;
        const v16 decay = set1(head.decays[t * static_cast<index>(head.number_stride)]);
        const v16 rate = set1(head.rates[t * static_cast<index>(head.number_stride)]);
        v16 sums[strips], changes[strips];
#pragma GCC unroll 8
        for (int s = 0; s < strips; ++s) {
            sums[s] = set1(0.0f);
        }
        for (index row = 0; row < head.rows; ++row) {
            const v16 by = set1(key[row]);
#pragma GCC unroll 8
            for (int s = 0; s < strips; ++s) {
                const v16 old = load_first(from + row * cols + s * lane_count, lanes_of(s));
                sums[s] = fma(mul(old, decay), by, sums[s]);
            }
        }
#pragma GCC unroll 8
        for (int s = 0; s < strips; ++s) {
            const v16 wanted = load_first(value + s * lane_count, lanes_of(s));
            changes[s] = mul(sub(wanted, sums[s]), rate);
            sums[s] = set1(0.0f);
        }
        for (index row = 0; row < head.rows; ++row) {
            const v16 by = set1(key[row]), asked = set1(query[row]);
#pragma GCC unroll 8
            for (int s = 0; s < strips; ++s) {
                const index at = row * cols + s * lane_count;
                const v16 old = mul(load_first(from + at, lanes_of(s)), decay);
                const v16 now = fma(by, changes[s], old);
                store_first(to + at, lanes_of(s), now);
                sums[s] = fma(now, asked, sums[s]);
            }
        }
#pragma GCC unroll 8
        for (int s = 0; s < strips; ++s) {
            store_first(out + s * lane_count, lanes_of(s), sums[s]);
        }
        from = to;
    }
}

template <int strips>
SIMD_INLINE void state_columns(const recurrent_head& head, index first, int lanes) {
    const float* from = head.from + first;
    float* to = head.to + first;
    const index cols = head.cols;
    const auto lanes_of = [lanes](int strip) { return strip == strips - 1 ? lanes : lane_count; };
    for (index t = 0; t < head.tokens; ++t) {
        const float* key = head.keys + t * static_cast<index>(head.key_stride);
        const float* query = head.queries + t * static_cast<index>(head.key_stride);
        const float* value = head.values + t * static_cast<index>(head.value_stride) + first;
        float* out = head.out + t * static_cast<index>(head.out_stride) + first;
        const v16 decay = set1(head.decays[t * static_cast<index>(head.number_stride)]);
        v16 sums[strips], values[strips];
#pragma GCC unroll 8
        for (int s = 0; s < strips; ++s) {
            values[s] = load_first(value + s * lane_count, lanes_of(s));
            sums[s] = set1(0.0f);
        }
        for (index row = 0; row < head.rows; ++row) {
            const v16 by = set1(key[row]), asked = set1(query[row]);
#pragma GCC unroll 8
            for (int s = 0; s < strips; ++s) {
                const index at = row * cols + s * lane_count;
                const v16 old = mul(load_first(from + at, lanes_of(s)), decay);
                const v16 now = fma(by, values[s], old);
                store_first(to + at, lanes_of(s), now);
                sums[s] = fma(now, asked, sums[s]);
            }
        }
#pragma GCC unroll 8
        for (int s = 0; s < strips; ++s) {
            store_first(out + s * lane_count, lanes_of(s), sums[s]);
        }
        from = to;
    }
}

SIMD void delta_rule(const recurrent_head& head) {
    index first = 0;
    for (; head.cols - first >= state_strips * lane_count; first += state_strips * lane_count) {
        delta_columns<state_strips>(head, first, lane_count);
    }
    for (; first < head.cols; first += lane_count) {
        delta_columns<1>(head, first, lanes_left(head.cols, first));
    }
}

SIMD void state_space(const recurrent_head& head) {
    index first = 0;
    for (; head.cols - first >= state_strips * lane_count; first += state_strips * lane_count) {
        state_columns<state_strips>(head, first, lane_count);
    }
    for (; first < head.cols; first += lane_count) {
        state_columns<1>(head, first, lanes_left(head.cols, first));
    }
}

SIMD void convolve(const float* const* columns, int taps, const float* weights, const float* bias,
                   std::size_t channels, bool activated, float* out) {
    const auto count = static_cast<index>(channels);
    for (index i = 0; i < count; i += lane_count) {
        const int lanes = lanes_left(count, i);
        v16 sum = bias == nullptr ? set1(0.0f) : load_first(bias + i, lanes);
        for (int tap = 0; tap < taps; ++tap) {
            const v16 weight = load_first(weights + tap * count + i, lanes);
            sum = fma(weight, load_first(columns[tap] + i, lanes), sum);
        }
        if (activated) {
            sum = div(sum, add(set1(1.0f), exp_lanes(mul(sum, set1(-1.0f)))));
        }
        store_first(out + i, lanes, sum);
    }
}
