// SPDX-License-Identifier: Apache-2.0
#include "storage/pool/wide_tail.hpp"

#include <cstring>

#include "storage/pool/block_pool.hpp"
#include "storage/types/as_size.hpp"
#include "storage/types/assert.hpp"

namespace semantic::storage {

result<std::shared_ptr<wide_tail>> wide_tail::make(block_pool& pool, kv_part part) {
    ASSERT(pool.layout().has_wide_tail());
    auto frames = pool.allocate(pool.layout().wide_frames(part));
    if (!frames) return frames.error();
    return std::shared_ptr<wide_tail>(new wide_tail(pool, part, std::move(*frames)));
}

wide_tail::~wide_tail() { pool_.release(frames_); }

wide_rows wide_tail::rows(int layer) const {
    const wide_place& at = pool_.layout().wide(layer);
    std::byte* frame = frames_[at.frame];
    return {frame + at.at, frame + at.values, pool_.layout().recipe().wide_tail};
}

void wide_tail::copy_from(const wide_tail& from) {
    ASSERT(&from.pool_ == &pool_ && from.part_ == part_);
    for (const int layer : pool_.layout().layers(part_)) {
        const wide_place& at = pool_.layout().wide(layer);
        std::memcpy(frames_[at.frame] + at.at, from.frames_[at.frame] + at.at, at.end - at.at);
    }
}

}  // namespace semantic::storage
