// SPDX-License-Identifier: Apache-2.0
#include "engine/kernels/gemm.hpp"

#include <cblas.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "engine/kernels/block_forms.hpp"
#include "engine/kernels/mxfp4_codes.hpp"
#include "storage/types/assert.hpp"

namespace semantic::engine {
namespace {

/// Rows of activations that a task takes at once: 128 rows of 2048 int8 inputs are 256 KiB, so they
/// stay in a 1 MiB L2 with the tile while the task walks over its tiles.
constexpr int rows_per_block = 128;
/// Multiply-adds worth a task: about 3 microseconds, thirty times what taking one costs. The small
/// matrices of a small model still make enough of them that all threads end together.
constexpr double task_products = 5e5;
/// Bytes of weights worth a task when few rows make a product memory-bound: the same time.
constexpr double task_bytes = 48e3;

/// The next multiple of 16: arrays in the scratch begin at multiples of a cache line.
std::size_t padded(std::size_t n) { return (n + 15) / 16 * 16; }

/// The rows of `x` from row `first` on.
quantized_rows rows_from(const quantized_rows& x, int first, int cols) {
    const auto groups = static_cast<std::ptrdiff_t>(first) * (cols / group_size);
    return {x.q + static_cast<std::ptrdiff_t>(first) * cols, x.scales + groups, x.sums + groups,
            x.part_sums == nullptr ? nullptr : x.part_sums + 4 * groups};
}

/// Quantises `count` rows of `cols` activations into `scratch`, which linear_scratch_floats()
/// sizes. `with_parts`: also sums parts of 16, which GGUF's forms need. The result refers to
/// `scratch`.
quantized_rows quantize(const kernel_table& kernels, const task_runner& tasks, const float* x,
                        int count, int cols, bool with_parts, float* scratch) {
    const auto rows = static_cast<std::size_t>(count), width = static_cast<std::size_t>(cols);
    auto* q = reinterpret_cast<std::int8_t*>(scratch);
    float* scales = scratch + padded(rows * width / 4);
    float* sums = scales + padded(rows * (width / group_size));
    auto* parts = reinterpret_cast<std::int16_t*>(sums + padded(rows * (width / group_size)));
    const auto groups = static_cast<std::ptrdiff_t>(cols / group_size);
    tasks.for_rows(0, count, cols, [=, &kernels](int row) {
        const auto at = static_cast<std::ptrdiff_t>(row);
        kernels.quantize_rows(x + at * cols, 1, cols, q + at * cols, scales + at * groups,
                              sums + at * groups);
        if (with_parts) {
            kernels.sum_parts(q + at * cols, width / 16, parts + at * 4 * groups);
        }
    });
    return {q, scales, sums, with_parts ? parts : nullptr};
}

/// The tiles of all jobs, numbered through, and how many of them make a strip, which is one task's
/// share of them.
struct tile_strips {
    int tiles = 0;
    int per_strip = 1;
    int strips() const { return (tiles + per_strip - 1) / per_strip; }
};

/// Cuts the jobs' tiles into strips that are worth a task each (task_products, task_bytes).
tile_strips cut(std::span<const linear_job> jobs, int count, int cols) {
    tile_strips result;
    double bytes = 0;
    bool has_floats = false;
    for (const linear_job& job : jobs) {
        result.tiles += job.weights->tiles();
        has_floats = has_floats || !job.weights->quantized();
        bytes += static_cast<double>(job.weights->bytes());
    }
    const int rows = std::min(count, rows_per_block);
    const double products = static_cast<double>(rows) * cols * lane_count;
    const double worth =
        std::max(products / task_products, bytes / std::max(result.tiles, 1) / task_bytes);
    // Strips are multiples of this: the kernels take four tiles of floats at once, or two of
    // others.
    const int side = has_floats ? 4 : 2;
    const double tiles = std::min(1.0 / std::max(worth, 1e-9), static_cast<double>(result.tiles));
    result.per_strip = std::max(side, static_cast<int>(tiles) / side * side);
    return result;
}

/// Multiplies the tiles [tile_begin, tile_end), which may be of several jobs, with `rows` rows of
/// activations from `row` on.
void run_strip(const kernel_table& kernels, std::span<const linear_job> jobs, int tile_begin,
               int tile_end, const float* x, const quantized_rows& q, int row, int rows, int cols) {
    int first = 0;
    for (const linear_job& job : jobs) {
        const packed_matrix& w = *job.weights;
        const int begin = std::max(tile_begin - first, 0);
        const int end = std::min(tile_end - first, w.tiles());
        first += w.tiles();
        if (begin >= end) {
            continue;
        }
        float* y = job.y + static_cast<std::size_t>(row) * job.ldy;
        if (w.quantized()) {
            kernels.linear_quant(w, begin, end, rows_from(q, row, cols), rows, y, job.ldy);
        } else {
            kernels.linear_float(w, begin, end, x + static_cast<std::ptrdiff_t>(row) * cols, rows,
                                 y, job.ldy);
        }
    }
}

/// Writes the tiles [first, first + tiles) as f32, side by side. out: [cols][tiles * 16]
void widen_strip(const packed_matrix& w, int first, int tiles, float* out) {
    const auto width = static_cast<std::size_t>(w.cols);
    for (int tile = 0; tile < tiles; ++tile) {
        const std::byte* at = w.data + static_cast<std::size_t>(first + tile) * w.tile_bytes();
        for (std::size_t i = 0; i < width * lane_count; ++i) {
            float value = 0.0f;
            if (w.kind == weight_kind::f32) {
                value = reinterpret_cast<const float*>(at)[i];
            } else {
                const auto bits = reinterpret_cast<const std::uint16_t*>(at)[i];
                value = w.kind == weight_kind::f16 ? to_float(bits) : bfloat_to_float(bits);
            }
            out[i / lane_count * static_cast<std::size_t>(tiles) * lane_count +
                static_cast<std::size_t>(tile) * lane_count + i % lane_count] = value;
        }
    }
}

/// Rows of one product through BLAS. OpenBLAS's Haswell kernels take 12 rows in one way and the
/// rest in another that rounds otherwise, so that a row's result would depend on how many there
/// are. Eight rows are computed in one way on every core type that 0.3.21 knows (gemm_test checks
/// it).
constexpr int blas_rows = 8;
constexpr int blas_tiles = 8;

/// Multiplies one strip of float weights with all rows by BLAS. Every product has the same shape, 8
/// rows x cols x strip width, with rows of zeros where there are fewer, so that results do not
/// depend on the number of rows.
void blas_strip(const packed_matrix& w, int first, int tiles, const float* x, int count, float* y,
                std::size_t ldy) {
    const auto width = static_cast<std::size_t>(w.cols);
    const auto columns = static_cast<std::size_t>(tiles) * lane_count;
    thread_local std::vector<float> strip, input, output;
    strip.resize(width * columns);
    input.resize(blas_rows * width);
    output.resize(blas_rows * columns);
    widen_strip(w, first, tiles, strip.data());
    for (int row = 0; row < count; row += blas_rows) {
        const auto rows = static_cast<std::size_t>(std::min(blas_rows, count - row));
        // Zeros below the last rows, so that the product has its fixed shape.
        std::fill(input.begin(), input.end(), 0.0f);
        std::copy_n(x + static_cast<std::size_t>(row) * width, rows * width, input.data());
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, blas_rows, static_cast<int>(columns),
                    w.cols, 1.0f, input.data(), w.cols, strip.data(), static_cast<int>(columns),
                    0.0f, output.data(), static_cast<int>(columns));
        const std::size_t column = static_cast<std::size_t>(first) * lane_count;
        const std::size_t real = std::min(columns, static_cast<std::size_t>(w.rows) - column);
        for (std::size_t m = 0; m < rows; ++m) {
            std::copy_n(output.data() + m * columns, real,
                        y + (static_cast<std::size_t>(row) + m) * ldy + column);
        }
    }
}

}  // namespace

std::size_t linear_scratch_floats(int count, int cols) noexcept {
    const auto rows = static_cast<std::size_t>(count), width = static_cast<std::size_t>(cols);
    const std::size_t groups = rows * ((width + 63) / group_size);
    return padded((rows * width + 3) / 4) + 2 * padded(groups) + padded(2 * groups);
}

void linear(const kernel_table& kernels, const task_runner& tasks, std::span<const linear_job> jobs,
            const float* x, int count, int cols, float* scratch) {
    if (count <= 0) {
        return;
    }
    if (kernels.float_by_blas) {
        // Float matrices go through BLAS one by one; quantised ones come back to this function.
        for (std::size_t i = 0; i < jobs.size(); ++i) {
            if (!jobs[i].weights->quantized()) {
                linear_blas(tasks, *jobs[i].weights, x, count, jobs[i].y, jobs[i].ldy);
            } else {
                kernel_table quantised_only = kernels;
                quantised_only.float_by_blas = false;
                linear(quantised_only, tasks, jobs.subspan(i, 1), x, count, cols, scratch);
            }
        }
        return;
    }
    quantized_rows q;
    bool has_quantised = false, has_blocks = false;
    for (const linear_job& job : jobs) {
        has_quantised = has_quantised || job.weights->quantized();
        has_blocks = has_blocks || is_block_kind(job.weights->kind);
    }
    if (has_quantised) {
        q = quantize(kernels, tasks, x, count, cols, has_blocks, scratch);
    }
    const tile_strips strips = cut(jobs, count, cols);
    const int blocks = (count + rows_per_block - 1) / rows_per_block;
    // Tasks next to each other take the same strip with different blocks of rows, so that the strip
    // is read from memory once.
    tasks.run(strips.strips() * blocks, true, [&](int i, int) {
        const int row = i % blocks * rows_per_block;
        const int tile = i / blocks * strips.per_strip;
        run_strip(kernels, jobs, tile, std::min(tile + strips.per_strip, strips.tiles), x, q, row,
                  std::min(rows_per_block, count - row), cols);
    });
}

void linear(const kernel_table& kernels, const task_runner& tasks, const packed_matrix& weights,
            const float* x, int count, float* y, std::size_t ldy, float* scratch) {
    const linear_job job{&weights, y, ldy};
    linear(kernels, tasks, {&job, 1}, x, count, weights.cols, scratch);
}

void linear_from(const kernel_table& kernels, const task_runner& tasks,
                 std::span<const linear_job> jobs, const float* x, int first, int count, int cols,
                 float* scratch) {
    std::array<linear_job, 4> rest;
    ASSERT(jobs.size() <= rest.size());
    const auto rows = static_cast<std::size_t>(first);
    for (std::size_t i = 0; i < jobs.size(); ++i) {
        rest[i] = jobs[i];
        rest[i].y += rows * rest[i].ldy;
    }
    linear(kernels, tasks, std::span(rest).first(jobs.size()),
           x + rows * static_cast<std::size_t>(cols), count - first, cols, scratch);
}

void linear_blas(const task_runner& tasks, const packed_matrix& weights, const float* x, int count,
                 float* y, std::size_t ldy) {
    // Once a process: the tasks are the threads, and BLAS must not start others.
    static const bool single_threaded = (openblas_set_num_threads(1), true);
    static_cast<void>(single_threaded);
    tasks.run((weights.tiles() + blas_tiles - 1) / blas_tiles, true, [&](int strip, int) {
        const int first = strip * blas_tiles;
        blas_strip(weights, first, std::min(blas_tiles, weights.tiles() - first), x, count, y, ldy);
    });
}

void pack_float(const packed_matrix& to, const std::byte* source, int tile_begin, int tile_end,
                std::byte* out) {
    const std::size_t element = to.kind == weight_kind::f32 ? 4 : 2;
    const auto width = static_cast<std::size_t>(to.cols);
    for (int tile = tile_begin; tile < tile_end; ++tile) {
        std::byte* at = out + static_cast<std::size_t>(tile) * to.tile_bytes();
        for (int lane = 0; lane < lane_count; ++lane) {
            const int row = tile * lane_count + lane;
            const std::byte* from = source + static_cast<std::size_t>(row) * width * element;
            for (std::size_t k = 0; k < width; ++k) {
                std::byte* cell = at + (k * lane_count + static_cast<std::size_t>(lane)) * element;
                // Rows that pad the last tile are zeros.
                if (row < to.rows) {
                    std::memcpy(cell, from + k * element, element);
                } else {
                    std::memset(cell, 0, element);
                }
            }
        }
    }
}

namespace {

/// Packs elements of 4 bits of one row into `quads` cells of 4 bytes each. The sources have two
/// elements to a byte, the even one in its low half; those of `low` go to the low halves of the
/// cells' bytes, those of `high` to the high halves. `lane`: the row within its tile.
void pack_nibbles(const std::byte* low, const std::byte* high, int quads, int lane, std::byte* q) {
    for (int element = 0; element < quads * 4; ++element) {
        const int shift = element % 2 * 4;
        const auto a = std::to_integer<unsigned>(low[element / 2]) >> shift & 15u;
        const auto b = std::to_integer<unsigned>(high[element / 2]) >> shift & 15u;
        q[element / 4 * 64 + lane * 4 + element % 4] = static_cast<std::byte>(a | b << 4);
    }
}

/// Packs one group of one row, 64 bytes (q8) or 32 (q4), into a record's area of integers.
void pack_group(weight_kind kind, const std::byte* words, int lane, std::byte* q) {
    if (kind == weight_kind::q4) {
        pack_nibbles(words, words + 16, 8, lane, q);
        return;
    }
    for (int quad = 0; quad < 16; ++quad) {
        std::memcpy(q + quad * 64 + lane * 4, words + quad * 4, 4);
    }
}

}  // namespace

void pack_mlx(const packed_matrix& to, const mlx_source& source, int tile_begin, int tile_end,
              std::byte* out) {
    const std::size_t scale_bytes = to.scales == scale_kind::f32 ? 4 : 2;
    const std::size_t group_bytes = to.kind == weight_kind::q8 ? 64 : 32;
    const auto groups = static_cast<std::size_t>(to.cols / group_size);
    for (int tile = tile_begin; tile < tile_end; ++tile) {
        std::byte* at = out + static_cast<std::size_t>(tile) * to.tile_bytes();
        std::memset(at, 0, to.tile_bytes());
        for (int lane = 0; lane < lane_count && tile * lane_count + lane < to.rows; ++lane) {
            const auto row = static_cast<std::size_t>(tile * lane_count + lane);
            for (std::size_t g = 0; g < groups; ++g) {
                std::byte* record = at + g * to.record_bytes();
                const std::size_t cell = static_cast<std::size_t>(lane) * scale_bytes;
                const std::size_t index = row * groups + g;
                std::memcpy(record + cell, source.scales + index * scale_bytes, scale_bytes);
                std::memcpy(record + lane_count * scale_bytes + cell,
                            source.biases + index * scale_bytes, scale_bytes);
                pack_group(to.kind, source.words + index * group_bytes, lane,
                           record + 2 * lane_count * scale_bytes);
            }
        }
    }
}

void pack_mxfp4(const packed_matrix& to, const mxfp4_source& source, int tile_begin, int tile_end,
                std::byte* out) {
    const auto blocks = static_cast<std::size_t>(to.cols / mxfp4_half);
    for (int tile = tile_begin; tile < tile_end; ++tile) {
        std::byte* at = out + static_cast<std::size_t>(tile) * to.tile_bytes();
        std::memset(at, 0, to.tile_bytes());
        for (int lane = 0; lane < lane_count && tile * lane_count + lane < to.rows; ++lane) {
            const auto row = static_cast<std::size_t>(tile * lane_count + lane) *
                             static_cast<std::size_t>(source.row_step);
            for (std::size_t block = 0; block < blocks; ++block) {
                std::byte* record = at + block / 2 * to.record_bytes();
                const std::size_t part = block % 2;
                record[part * lane_count + static_cast<std::size_t>(lane)] =
                    source.scales[row * blocks + block];
                const std::byte* codes = source.blocks + (row * blocks + block) * 16;
                pack_nibbles(codes, codes + 8, 4, lane, record + 2 * lane_count + part * 256);
            }
        }
    }
}

}  // namespace semantic::engine
