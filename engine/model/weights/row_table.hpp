// SPDX-License-Identifier: Apache-2.0
#pragma once
// A matrix of which single rows are read where they lie in the model's file, so that no more of it
// is in memory than the system keeps of the file: the inputs of Gemma 4's layers are more than half
// of its small models. Owner: model_weights, with the file. Thread: any.

#include <cstddef>
#include <span>

#include "engine/model/weights/gguf_blocks.hpp"
#include "engine/model/weights/weight_files.hpp"
#include "storage/files/gguf.hpp"

namespace semantic::engine {

class row_table {
  public:
    row_table() = default;
    /// `tensor` lies in a file that outlives this. Requires: [rows, cols], floats or blocks that
    /// can_dequantize(); rows of whole blocks.
    explicit row_table(const stored_tensor& tensor)
        : bytes_(tensor.bytes),
          type_(type_of(tensor)),
          cols_(static_cast<int>(tensor.shape[1])),
          row_bytes_(tensor.bytes.size() / static_cast<std::size_t>(tensor.shape[0])) {}

    bool empty() const noexcept { return bytes_.empty(); }
    int cols() const noexcept { return cols_; }
    /// Blocks while the system reads the file. out [cols()]: written.
    void read(int row, std::span<float> out) const {
        const std::size_t first = static_cast<std::size_t>(row) * row_bytes_;
        dequantize(type_, bytes_.subspan(first, row_bytes_), out);
    }

  private:
    static storage::gguf_type type_of(const stored_tensor& tensor) {
        if (tensor.blocks) return *tensor.blocks;
        if (tensor.type == storage::dtype::f16) return storage::gguf_type::f16;
        return tensor.type == storage::dtype::bf16 ? storage::gguf_type::bf16
                                                   : storage::gguf_type::f32;
    }

    std::span<const std::byte> bytes_;
    storage::gguf_type type_{};
    int cols_ = 0;
    std::size_t row_bytes_ = 0;
};

}  // namespace semantic::engine
