// SPDX-License-Identifier: Apache-2.0
#include "engine/model/mixers/head_products.hpp"

#include <algorithm>
#include <cstring>

namespace semantic::engine {

namespace {

/// Rows of one task. With 64 rows a head's matrix (512 x 128 f16: 128 KiB) stays in L2.
constexpr int rows_per_block = 64;
/// Elements of a part, of which the kernels need the sum.
constexpr std::size_t elements_per_part_sum = 16;
/// Multiply-adds that one thread does in about 10 microseconds. For less work it does not pay to
/// wake other threads.
constexpr double parallel_product_work = 1e6;

}  // namespace

head_products::head_products(const kernel_table& kernels, const task_runner& tasks, int inputs_max,
                             int outputs_max)
    : kernels_(kernels), tasks_(tasks) {
    const std::size_t inputs = static_cast<std::size_t>(inputs_max) * rows_per_block;
    slots_.resize(inputs == 0 ? 0 : static_cast<std::size_t>(tasks.slots()));
    for (slot_scratch& slot : slots_) {
        slot.rows = aligned_buffer<float>(inputs);
        slot.levels = aligned_buffer<std::int8_t>(inputs);
        slot.scales = aligned_buffer<float>(inputs / group_size);
        slot.sums = aligned_buffer<float>(inputs / group_size);
        slot.part_sums = aligned_buffer<std::int16_t>(inputs / elements_per_part_sum);
        slot.corrections =
            aligned_buffer<float>(static_cast<std::size_t>(outputs_max) * rows_per_block);
    }
}

void head_products::run(std::span<const packed_matrix> heads, head_vectors<const float> x,
                        int count, head_vectors<float> y) {
    const int blocks = (count + rows_per_block - 1) / rows_per_block;
    const double work = static_cast<double>(count) * static_cast<double>(heads.size()) *
                        heads[0].rows * heads[0].cols;
    tasks_.run(blocks * static_cast<int>(heads.size()), work > parallel_product_work,
               [&](int task, int slot) {
                   const auto head = static_cast<std::size_t>(task / blocks);
                   const int first = task % blocks * rows_per_block;
                   const auto row = static_cast<std::size_t>(first);
                   run_block(heads[head], x.data + row * x.row_step + head * x.head_step,
                             x.row_step, std::min(rows_per_block, count - first),
                             y.data + row * y.row_step + head * y.head_step, y.row_step,
                             slots_[static_cast<std::size_t>(slot)]);
               });
}

void head_products::run_block(const packed_matrix& w, const float* x, std::size_t row_step,
                              int count, float* y, std::size_t ldy, slot_scratch& scratch) const {
    const auto inputs = static_cast<std::size_t>(w.cols);
    for (std::size_t row = 0; row < static_cast<std::size_t>(count); ++row) {
        std::memcpy(scratch.rows.data() + row * inputs, x + row * row_step, inputs * sizeof(float));
    }
    if (!w.quantized()) {
        return kernels_.linear_float(w, 0, w.tiles(), scratch.rows.data(), count, y, ldy);
    }
    const quantized_rows rows{scratch.levels.data(), scratch.scales.data(), scratch.sums.data(),
                              scratch.part_sums.data()};
    const auto quantize = [&] {
        kernels_.quantize_rows(scratch.rows.data(), count, w.cols, scratch.levels.data(),
                               scratch.scales.data(), scratch.sums.data());
        // 16: elements_per_part_sum.
        kernels_.sum_parts(scratch.levels.data(), static_cast<std::size_t>(count) * inputs / 16,
                           scratch.part_sums.data());
    };
    quantize();
    kernels_.linear_quant(w, 0, w.tiles(), rows, count, y, ldy);
    // Multiplies the rounding error of the inputs, too, and adds that product.
    for (std::size_t i = 0; i < static_cast<std::size_t>(count) * inputs; ++i)
        scratch.rows.data()[i] -= rows.scales[i / group_size] * static_cast<float>(rows.q[i]);
    quantize();
    const auto outputs = static_cast<std::size_t>(w.rows);
    kernels_.linear_quant(w, 0, w.tiles(), rows, count, scratch.corrections.data(), outputs);
    for (std::size_t row = 0; row < static_cast<std::size_t>(count); ++row)
        kernels_.add(y + row * ldy, scratch.corrections.data() + row * outputs, outputs);
}

}  // namespace semantic::engine
