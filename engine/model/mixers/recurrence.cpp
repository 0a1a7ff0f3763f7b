#include "engine/model/mixers/recurrence.hpp"

#include <cstring>

#include "storage/types/as_size.hpp"

namespace semantic::engine {

using storage::as_size;

void recurrence::run(const state_region& region, std::span<const state_piece> pieces,
                     const recurrence_rows& rows) const {
    const int count = static_cast<int>(pieces.size()), heads = shape_.value_heads;
    // A head's token takes a microsecond of a large model, and several of a task's make up for it.
    const bool parallel = count * shape_.matrix_floats() > 8192;
    context_.tasks.run(count * heads, parallel, [&](int index, int) {
        run_head(region, pieces[as_size(index / heads)], rows, index % heads);
    });
}

void recurrence::run_head(const state_region& region, const state_piece& piece,
                          const recurrence_rows& rows, int head) const {
    const std::size_t floats = as_size(shape_.key_dim) * as_size(shape_.value_dim);
    const std::size_t offset = region.matrices + as_size(head) * floats * sizeof(float);
    if (piece.from == nullptr) std::memset(piece.to + offset, 0, floats * sizeof(float));
    const auto first = as_size(piece.first - rows.begin);
    const std::size_t key =
        first * rows.key_stride + as_size(shape_.key_head(head)) * as_size(shape_.key_dim);
    const std::size_t value = as_size(head) * as_size(shape_.value_dim);
    const std::size_t number = first * as_size(shape_.value_heads) + as_size(head);
    const std::size_t width = as_size(shape_.value_width());

    recurrent_head job;
    job.to = reinterpret_cast<float*>(piece.to + offset);
    job.from = piece.from == nullptr ? job.to : reinterpret_cast<const float*>(piece.from + offset);
    job.keys = rows.keys + key;
    job.queries = rows.queries + key;
    job.values = rows.values + first * rows.value_stride + value;
    job.decays = rows.decays + number;
    job.rates = rows.rates == nullptr ? nullptr : rows.rates + number;
    job.out = rows.out + first * width + value;
    job.rows = shape_.key_dim;
    job.cols = shape_.value_dim;
    job.tokens = piece.count;
    job.key_stride = rows.key_stride;
    job.value_stride = rows.value_stride;
    job.number_stride = as_size(shape_.value_heads);
    job.out_stride = width;
    run_(job);
}

}  // namespace semantic::engine
