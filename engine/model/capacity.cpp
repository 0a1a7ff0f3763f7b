// SPDX-License-Identifier: Apache-2.0
#include "engine/model/capacity.hpp"

#include <algorithm>

#include "storage/pool/block_frames.hpp"

namespace semantic::engine {

namespace {

/// Bytes a token of a block that has `frames` frames, rounded up.
std::uint64_t frame_share(const storage::kv_layout& layout, std::size_t frames) {
    const auto tokens = static_cast<std::uint64_t>(layout.block_tokens());
    return (std::uint64_t{frames} * layout.frame_bytes() + tokens - 1) / tokens;
}

}  // namespace

std::uint64_t frames_of_conversation(const storage::kv_layout& layout, int tokens) {
    const int block = layout.block_tokens();
    const int blocks = (tokens + block - 1) / block;
    std::uint64_t frames = layout.wide_frames();
    // Of each part (full or sliding layers) as many blocks are kept as its widest window can touch.
    for (const storage::kv_part part : storage::kv_parts) {
        int reached = part == storage::kv_part::full ? blocks : 0;
        for (const int layer : layout.layers(part))
            if (const int window = layout.layer(layer).window; window > 0)
                // The most blocks that `window` consecutive tokens can touch.
                reached = std::max(reached, (window + block - 2) / block + 1);
        frames += static_cast<std::uint64_t>(std::min(blocks, reached)) *
                  storage::frames_of_block(layout, part);
    }
    return frames;
}

std::uint64_t kept_state_bytes(const model_config& config) {
    constexpr std::uint64_t kept = 2;
    return kept * config.state_bytes();
}

std::uint64_t conversations_in(const storage::kv_layout& layout, int tokens,
                               std::uint64_t pool_bytes, std::uint64_t state_bytes) {
    // In whole frames, as the pool hands them out.
    const std::uint64_t frame = layout.frame_bytes(), states = (state_bytes + frame - 1) / frame;
    return pool_bytes / frame / (frames_of_conversation(layout, tokens) + states);
}

std::uint64_t lasting_bytes_per_token(const storage::kv_layout& layout) {
    std::uint64_t bytes = 0;
    for (int i = 0; i < layout.layer_count(); ++i) {
        if (layout.layer(i).window != 0) continue;
        for (const storage::kv_region& region : layout.stored(i)) {
            const auto heads = static_cast<std::uint64_t>(layout.layer(i).kv_heads);
            // A group has a scale and a bias, of 2 bytes each.
            bytes += heads * (region.row_bytes + 4 * static_cast<std::uint64_t>(region.groups));
        }
    }
    return bytes;
}

std::uint64_t pool_bytes_per_token(const storage::kv_layout& layout) {
    return frame_share(layout, storage::frames_of_block(layout));
}

std::uint64_t lasting_pool_bytes_per_token(const storage::kv_layout& layout) {
    return frame_share(layout, storage::frames_of_block(layout, storage::kv_part::full));
}

}  // namespace semantic::engine
