// SPDX-License-Identifier: Apache-2.0
#include "engine/model/pass/pass_rows.hpp"

#include "storage/types/assert.hpp"

namespace semantic::engine {

pass_rows::pass_rows(const model_config& config, const task_runner& tasks, int rows_max)
    : config_(config),
      tasks_(tasks),
      rows_max_(rows_max),
      parts_(static_cast<std::size_t>(rows_max)),
      positions_(static_cast<std::size_t>(rows_max)),
      angles_(config, rows_max) {
    spans_.reserve(static_cast<std::size_t>(rows_max));
    sequences_.reserve(static_cast<std::size_t>(rows_max));
}

void pass_rows::lay_out(std::span<const sequence_step> batch) {
    int rows = 0;
    sequences_.clear();
    for (const sequence_step& step : batch) {
        const int count = static_cast<int>(step.tokens.size()), first = step.cache->token_count();
        ASSERT(rows + count <= rows_max_);
        ASSERT(first + count <= config_.context_tokens_max);
        ASSERT(first + count <= step.cache->reserved_tokens());
        // A sequence without tokens has no part in the step.
        if (count == 0) continue;
        sequences_.push_back({.cache = step.cache,
                              .first_row = rows,
                              .first = first,
                              .end = first + count,
                              .state = step.state,
                              .next_state = step.next_state,
                              .drafts = step.drafts});
        for (int i = 0; i < count; ++i) {
            parts_[static_cast<std::size_t>(rows + i)] = &sequences_.back();
            positions_[static_cast<std::size_t>(rows + i)] = first + i;
        }
        rows += count;
    }
    cut(rows);
}

void pass_rows::move(int from, int to) {
    parts_[static_cast<std::size_t>(to)] = parts_[static_cast<std::size_t>(from)];
    positions_[static_cast<std::size_t>(to)] = positions_[static_cast<std::size_t>(from)];
}

// Also computes the angles and spans of the rows that are left, which may have been moved.
void pass_rows::cut(int count) {
    count_ = count;
    tasks_.for_rows(0, count, 32 * config_.head_dim,
                    [&](int row) { angles_.fill(row, position(row)); });
    spans_.clear();
    for (int first = 0, end = 0; first < count; first = end) {
        const step_part* each = &part(first);
        while (end < count && &part(end) == each) ++end;
        spans_.push_back({each, first, end - first, positions_.data() + first});
    }
}

}  // namespace semantic::engine
