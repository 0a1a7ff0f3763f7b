// SPDX-License-Identifier: Apache-2.0
#pragma once
// A matrix whose rows are read one by one from the mapped model file, so that it takes no memory
// apart from the page cache: Gemma 4's per-layer embeddings are more than half of its small models.
// Owner: model_weights, with the file. Thread: any.

#include <cstddef>
#include <span>

#include "engine/model/weights/gguf_blocks.hpp"
#include "engine/model/weights/weight_files.hpp"
#include "storage/files/gguf.hpp"

namespace semantic::engine {

class row_table {
  public:
    row_table() = default;
    /// `tensor`: [rows, cols] of floats, or of blocks that can_dequantize() and that fill whole
    /// rows. Its file must outlive this.
    explicit row_table(const stored_tensor& tensor)
        : bytes_(tensor.bytes),
          type_(type_of(tensor)),
          cols_(static_cast<int>(tensor.shape[1])),
          row_bytes_(tensor.bytes.size() / static_cast<std::size_t>(tensor.shape[0])) {}

    bool empty() const noexcept { return bytes_.empty(); }
    int cols() const noexcept { return cols_; }
    /// Writes one row to out [cols()]. Blocks while the system reads the file.
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
