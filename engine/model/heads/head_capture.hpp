#pragma once
// Copies of heads before rope, for who measures them. Owner: transformer. Thread: as forward(),
// each row apart.

#include <algorithm>
#include <cstddef>

#include "engine/model/config/model_config.hpp"

namespace semantic::engine {

struct head_capture {
    float* keys = nullptr;  // [layers that attend, rows_max, kv_heads, head_dim]; null: not wanted
    float* queries = nullptr;  // [layers that attend, rows_max, heads, head_dim]; null: not wanted
    int rows_max = 0;

    bool wants_queries() const noexcept { return queries != nullptr; }
    void take_key(const model_config& config, int layer, int row, int head, const float* x) const {
        take(keys, config, config.kv_heads, layer, row, head, x);
    }
    void take_query(const model_config& config, int layer, int row, int head,
                    const float* x) const {
        take(queries, config, config.heads, layer, row, head, x);
    }

  private:
    void take(float* to, const model_config& config, int heads, int layer, int row, int head,
              const float* x) const {
        if (to == nullptr) return;
        const auto dim = static_cast<std::size_t>(config.head_dim);
        const auto rows = static_cast<std::size_t>(layer) * static_cast<std::size_t>(rows_max) +
                          static_cast<std::size_t>(row);
        const std::size_t index =
            rows * static_cast<std::size_t>(heads) + static_cast<std::size_t>(head);
        std::copy_n(x, dim, to + index * dim);
    }
};

}  // namespace semantic::engine
