// SPDX-License-Identifier: Apache-2.0
#include "engine/model/mixers/convolution.hpp"

#include <algorithm>
#include <cstring>

#include "storage/types/as_size.hpp"
#include "storage/types/assert.hpp"

namespace semantic::engine {

using storage::as_size;

convolution::convolution(const pass_context& context)
    : context_(context),
      taps_(context.config.convolution.taps),
      channels_(context.config.convolution.channels),
      zeros_(as_size(channels_)) {
    ASSERT(taps_ >= 1 && taps_ <= taps_max);
    std::fill_n(zeros_.data(), zeros_.count(), 0.0f);
    for (const layer_config& layer : context.config.layers)
        recorded_.emplace_back(
            is_recurrent(layer.mixer) ? as_size(context.draft_rows_max) * as_size(channels_) : 0);
}

void convolution::run(int layer, const state_region& region, std::span<const state_piece> pieces,
                      const columns_view& columns, activation after, float* out) {
    const recurrent_weights& w = context_.layer(layer).recurrent;
    const auto channels = as_size(channels_);
    for (const state_piece& piece : pieces) {
        const int first = piece.first - columns.begin;  // of the panel's rows
        const float* own = columns.data + as_size(first) * columns.stride;
        // [taps - 1, channels], the oldest first; null before the sequence's first token.
        const float* former = piece.from == nullptr
                                  ? nullptr
                                  : reinterpret_cast<const float*>(piece.from + region.columns);
        context_.tasks.for_rows(0, piece.count, 4 * taps_ * channels_, [&](int row) {
            const float* read[taps_max];  // the oldest first; the last one is the row's own
            for (int tap = 0; tap < taps_; ++tap) {
                const int at = row - taps_ + 1 + tap;
                read[tap] = at >= 0             ? own + as_size(at) * columns.stride
                            : former == nullptr ? zeros_.data()
                                                : former + as_size(at + taps_ - 1) * channels;
            }
            context_.kernels.convolve(
                read, taps_, w.taps.data(), w.taps_bias.empty() ? nullptr : w.taps_bias.data(),
                channels, after == activation::silu, out + as_size(first + row) * channels);
        });
        keep_columns(region, piece, own, columns.stride);
        if (piece.recorded >= 0) record(layer, piece, own, columns.stride);
    }
}

void convolution::record(int layer, const state_piece& piece, const float* columns,
                         std::size_t stride) {
    float* to = recorded_[as_size(layer)].data() + as_size(piece.recorded) * as_size(channels_);
    for (int row = 0; row < piece.count; ++row, to += channels_)
        std::memcpy(to, columns + as_size(row) * stride, as_size(channels_) * sizeof(float));
}

void convolution::replay(int layer, const state_region& region, const state_piece& piece) const {
    const float* columns =
        recorded_[as_size(layer)].data() + as_size(piece.recorded) * as_size(channels_);
    keep_columns(region, piece, columns, as_size(channels_));
}

/// Writes the last taps - 1 columns up to the piece's end to its state: its own, and before them
/// those of the state before it. In ascending order, because both states may be the same buffer.
void convolution::keep_columns(const state_region& region, const state_piece& piece,
                               const float* columns, std::size_t stride) const {
    const std::size_t bytes = as_size(channels_) * sizeof(float);
    std::byte* to = piece.to + region.columns;
    for (int i = 0; i < taps_ - 1; ++i, to += bytes) {
        const int at = piece.count - taps_ + 1 + i;
        if (at >= 0) {
            std::memcpy(to, columns + as_size(at) * stride, bytes);
        } else if (piece.from == nullptr) {
            std::memset(to, 0, bytes);
        } else {
            std::memcpy(to, piece.from + region.columns + as_size(at + taps_ - 1) * bytes, bytes);
        }
    }
    // The rest up to the next layer's part is padding.
    std::memset(to, 0, static_cast<std::size_t>(piece.to + region.end - to));
}

}  // namespace semantic::engine
