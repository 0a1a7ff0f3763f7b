// SPDX-License-Identifier: Apache-2.0
#pragma once
// Copies keys and queries before rope to buffers, for calibration. Owner: transformer. Thread:
// different rows may be taken at once.

#include <algorithm>
#include <cstddef>
#include <vector>

#include "engine/model/heads/layer_heads.hpp"

namespace semantic::engine {

struct head_capture {
    float* keys = nullptr;     // layer after layer [rows_max, kv_heads, dim]; null: not wanted
    float* queries = nullptr;  // layer after layer [rows_max, heads, dim]; null: not wanted
    std::size_t rows_max = 0;
    std::vector<layer_heads> layers;  // the layers that store keys and values

    bool wants_queries() const noexcept { return queries != nullptr; }
    /// Copies one key [dim] of a row, if keys are wanted. `layer`: its number in the KV layout.
    void take_key(int layer, int row, int head, const float* x) const {
        if (keys == nullptr) return;
        const layer_heads& heads = layers[static_cast<std::size_t>(layer)];
        copy(keys + rows_max * heads.keys_before, heads.keys(), heads.dim, row, head, x);
    }
    /// Copies one query [dim] of a row, if queries are wanted.
    void take_query(int layer, int row, int head, const float* x) const {
        if (queries == nullptr) return;
        const layer_heads& heads = layers[static_cast<std::size_t>(layer)];
        copy(queries + rows_max * heads.queries_before, heads.queries(), heads.dim, row, head, x);
    }

  private:
    static void copy(float* to, std::size_t width, int dim, int row, int head, const float* x) {
        std::copy_n(x, dim,
                    to + static_cast<std::size_t>(row) * width +
                        static_cast<std::size_t>(head) * static_cast<std::size_t>(dim));
    }
};

}  // namespace semantic::engine
