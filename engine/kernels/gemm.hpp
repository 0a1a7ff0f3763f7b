// SPDX-License-Identifier: Apache-2.0
#pragma once
// Matrix products over all threads, and the packing of weights into the form the kernels read.
// Thread: linear() is called by the thread that owns the task_runner; the pack functions are pure,
// so a loader may pack different tiles from different threads.

#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/kernels/kernels.hpp"
#include "engine/kernels/task_runner.hpp"

namespace semantic::engine {

/// One product of a shared input: y[m, n] = Σ_k x[m, k] * W[n, k].
struct linear_job {
    const packed_matrix* weights = nullptr;
    float* y = nullptr;   // [count, weights->rows]
    std::size_t ldy = 0;  // floats from one row of y to the next
};

/// Floats of scratch that linear() needs for `count` rows of `cols` inputs; grows with both.
std::size_t linear_scratch_floats(int count, int cols) noexcept;

/// Runs all jobs (q, k, v; gate, up) on x [count, cols] in one parallel region; the activations are
/// quantised once when a job needs it. A row's result depends on that row alone.
/// Requires: every job's weights have `cols` inputs; scratch [linear_scratch_floats(count, cols)],
/// 64-byte aligned.
void linear(const kernel_table& kernels, const task_runner& tasks, std::span<const linear_job> jobs,
            const float* x, int count, int cols, float* scratch);
void linear(const kernel_table& kernels, const task_runner& tasks, const packed_matrix& weights,
            const float* x, int count, float* y, std::size_t ldy, float* scratch);
/// linear() of the rows [first, count) of x and of every y; those before `first` stay as they are.
/// Requires: at most 4 jobs.
void linear_from(const kernel_table& kernels, const task_runner& tasks,
                 std::span<const linear_job> jobs, const float* x, int first, int count, int cols,
                 float* scratch);

/// linear() for one float matrix with OpenBLAS, whatever the CPU, in 8-row blocks padded with zeros
/// so that a row's result does not depend on the other rows. Allocates per-thread buffers on first
/// use.
void linear_blas(const task_runner& tasks, const packed_matrix& weights, const float* x, int count,
                 float* y, std::size_t ldy);

/// Packs the tiles [tile_begin, tile_end) of a row-major matrix [to.rows, to.cols] of kind to.kind
/// (f32, f16 or bf16, same type in source and packed form). `out` is the start of the whole packed
/// matrix, to.bytes() long; `to.data` is not used.
void pack_float(const packed_matrix& to, const std::byte* source, int tile_begin, int tile_end,
                std::byte* out);

/// Row-major MLX affine weights: u32 words [rows, cols * bits / 32], element i of a word at bits
/// bits * i; scales and biases [rows, cols / 64] of to.scales' type.
struct mlx_source {
    const std::byte* words = nullptr;
    const std::byte* scales = nullptr;
    const std::byte* biases = nullptr;
};

/// As pack_float, for to.kind q4 (4 bits) or q8 (8 bits).
void pack_mlx(const packed_matrix& to, const mlx_source& source, int tile_begin, int tile_end,
              std::byte* out);

/// Row-major MXFP4 weights: blocks u8 [rows, cols / 32, 16], element 2j of a block in the low
/// nibble of byte j, 2j + 1 in the high one; scales u8 [rows, cols / 32], exponents biased by 127.
struct mxfp4_source {
    const std::byte* blocks = nullptr;
    const std::byte* scales = nullptr;
    /// Packed row r is row r * row_step of the source: 2 takes one of two interleaved matrices.
    int row_step = 1;
};

/// As pack_float, for to.kind mxfp4.
void pack_mxfp4(const packed_matrix& to, const mxfp4_source& source, int tile_begin, int tile_end,
                std::byte* out);

}  // namespace semantic::engine
