#include "engine/model/capacity.hpp"

#include <algorithm>

namespace semantic::engine {

std::uint64_t frames_of_conversation(const storage::kv_layout& layout, int tokens) {
    const int block = layout.block_tokens();
    const int blocks = (tokens + block - 1) / block;
    std::uint64_t frames = layout.wide_frames();
    for (int i = 0; i < layout.layer_count(); ++i) {
        const int window = layout.layer(i).window;
        const int reached = window == 0 ? blocks : (window + block - 2) / block + 1;
        frames += static_cast<std::uint64_t>(std::min(blocks, reached));
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
            bytes += heads * (region.row_bytes + 4 * static_cast<std::uint64_t>(region.groups));
        }
    }
    return bytes;
}

}  // namespace semantic::engine
