// SPDX-License-Identifier: Apache-2.0
#pragma once
// How many frames a block has. Thread: any.

#include <cstddef>

#include "storage/pool/kv_layout.hpp"

namespace semantic::storage {

/// Frames that a block of the part has: one for each of its layers, or one for several where these
/// fit into a frame together. 0 where the model has no layers of the part.
inline std::size_t frames_of_block(const kv_layout& layout, kv_part part) {
    // Slots ascend with the layers and leave none out.
    const auto& layers = layout.layers(part);
    return layers.empty() ? 0 : static_cast<std::size_t>(layout.slot(layers.back())) + 1;
}

/// Frames that a block of both parts has.
inline std::size_t frames_of_block(const kv_layout& layout) {
    return frames_of_block(layout, kv_part::full) + frames_of_block(layout, kv_part::sliding);
}

}  // namespace semantic::storage
