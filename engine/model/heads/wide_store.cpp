// SPDX-License-Identifier: Apache-2.0
#include "engine/model/heads/wide_store.hpp"

#include <algorithm>

#include "storage/types/as_size.hpp"

namespace semantic::engine {

using storage::as_size;

wide_store::wide_store(const storage::kv_layout& layout, int rows_max)
    : layout_(layout), rows_max_(rows_max) {
    if (!layout.has_wide_tail()) return;
    std::size_t most = 0;
    for (int i = 0; i < layout.layer_count(); ++i) {
        const storage::kv_layer& each = layout.layer(i);
        most = std::max(most, as_size(each.kv_heads) * as_size(each.k_dim + each.v_dim));
    }
    // 2 bytes a number: f16.
    between_ = aligned_buffer<std::byte>(most * as_size(rows_max) * 2);
}

wide_store::group wide_store::at(const step_part& part, int layer, int position) {
    const int start = layout_.group_start(position);
    // The sequence has the rows of the groups in which the step begins and ends.
    if (start <= part.first) return {part.cache->group_rows(layer), 0};
    if (start == layout_.group_start(part.end - 1)) return {part.cache->next_group_rows(layer), 0};
    const storage::kv_layer& shape = layout_.layer(layer);
    std::byte* keys = between_.data();
    std::byte* values =
        keys + as_size(shape.kv_heads) * as_size(shape.k_dim) * as_size(rows_max_) * 2;
    return {{keys, values, rows_max_}, part.first_row + start - part.first};
}

}  // namespace semantic::engine
