// SPDX-License-Identifier: Apache-2.0
#include "engine/model/mixers/recurrence.hpp"

#include <cstring>

#include "storage/types/as_size.hpp"

namespace semantic::engine {

using storage::as_size;

recurrence::recurrence(const pass_context& context, kernel head_kernel)
    : context_(context), shape_(context.config.recurrence), run_(head_kernel) {
    const std::size_t rows = as_size(context.draft_rows_max);
    const std::size_t key = rows * as_size(shape_.key_width()),
                      value = rows * as_size(shape_.value_width()),
                      heads = rows * as_size(shape_.value_heads);
    const auto buffer = [](std::size_t floats) { return aligned_buffer<float>(floats); };
    for (const layer_config& layer : context.config.layers) {
        record& each = recorded_.emplace_back();
        if (!is_recurrent(layer.mixer)) continue;
        each = {buffer(key), buffer(key), buffer(value), buffer(heads), buffer(heads)};
    }
    unused_ = buffer(value);
}

void recurrence::run(int layer, const state_region& region, std::span<const state_piece> pieces,
                     const recurrence_rows& rows) {
    has_rates_ = rows.rates != nullptr;
    for (const state_piece& piece : pieces)
        if (piece.recorded >= 0) add_record(recorded_[as_size(layer)], piece, rows);
    run_heads(region, pieces, rows);
}

/// Copies a piece's inputs to the end of its record, so that the state can be computed again from
/// an earlier one.
void recurrence::add_record(record& to, const state_piece& piece,
                            const recurrence_rows& rows) const {
    const auto copy = [&](const float* from, std::size_t stride, int width,
                          aligned_buffer<float>& kept) {
        from += as_size(piece.first - rows.begin) * stride;
        float* next = kept.data() + as_size(piece.recorded) * as_size(width);
        for (int row = 0; row < piece.count; ++row, from += stride, next += width)
            std::memcpy(next, from, as_size(width) * sizeof(float));
    };
    copy(rows.keys, rows.key_stride, shape_.key_width(), to.keys);
    copy(rows.queries, rows.key_stride, shape_.key_width(), to.queries);
    copy(rows.values, rows.value_stride, shape_.value_width(), to.values);
    copy(rows.decays, as_size(shape_.value_heads), shape_.value_heads, to.decays);
    if (rows.rates != nullptr)
        copy(rows.rates, as_size(shape_.value_heads), shape_.value_heads, to.rates);
}

void recurrence::replay(int layer, const state_region& region, const state_piece& piece) {
    const record& kept = recorded_[as_size(layer)];
    state_piece again = piece;
    again.first = piece.recorded;  // where its rows are in the record
    recurrence_rows rows;
    rows.keys = kept.keys.data();
    rows.queries = kept.queries.data();
    rows.values = kept.values.data();
    rows.key_stride = as_size(shape_.key_width());
    rows.value_stride = as_size(shape_.value_width());
    rows.decays = kept.decays.data();
    rows.rates = has_rates_ ? kept.rates.data() : nullptr;
    rows.out = unused_.data();
    run_heads(region, {&again, 1}, rows);
}

void recurrence::run_heads(const state_region& region, std::span<const state_piece> pieces,
                           const recurrence_rows& rows) const {
    const int count = static_cast<int>(pieces.size()), heads = shape_.value_heads;
    // One token of one head takes a microsecond in a large model: with few and small ones it does
    // not pay to wake other threads.
    const bool parallel = count * shape_.matrix_floats() > 8192;
    context_.tasks.run(count * heads, parallel, [&](int index, int) {
        run_head(region, pieces[as_size(index / heads)], rows, index % heads);
    });
}

/// Runs a piece's tokens through one head, from the state before them to the one after. Without a
/// state before, it begins with zeros.
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
