// SPDX-License-Identifier: Apache-2.0
// One kernel at a time, one thread unless the name says threaded (rates then by wall clock, else by
// CPU time): GB/s of what is read and GOP/s of multiply-adds (two a pair), and what share that is
// of this machine's roofs, measured before the first kernel (kernel_roofs.hpp).
// Run: build/bin/kernels_bench [--benchmark_filter=...]; SEMANTIC_KERNELS names the table.

#include <algorithm>
#include <benchmark/benchmark.h>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "engine/kernels/attention_scratch.hpp"
#include "engine/kernels/gemm.hpp"
#include "engine/kernels/tables.hpp"
#include "perf/inside/kernel_roofs.hpp"

namespace {

using namespace semantic::engine;

const kernel_table& chosen() {
    const char* name = std::getenv("SEMANTIC_KERNELS");
    const kernel_table* table = find_kernels(name != nullptr ? name : "auto");
    return table != nullptr ? *table : *find_kernels("scalar");
}

template <class T>
class aligned_buffer {
  public:
    explicit aligned_buffer(std::size_t count)
        : data_(static_cast<T*>(::operator new (count * sizeof(T) + 64, std::align_val_t{64}))),
          count_(count) {}
    ~aligned_buffer() { ::operator delete (data_, std::align_val_t{64}); }
    aligned_buffer(const aligned_buffer&) = delete;
    aligned_buffer& operator=(const aligned_buffer&) = delete;
    T* data() { return data_; }
    std::size_t size() const { return count_; }

  private:
    T* data_;
    std::size_t count_;
};

/// Every 2 bytes hold a small f16 or bf16 value, every byte a q: fit for any kind of weights.
template <class T>
void fill(aligned_buffer<T>& to) {
    auto* halves = reinterpret_cast<std::uint16_t*>(to.data());
    std::minstd_rand random(3);
    for (std::size_t i = 0; i < to.size() * sizeof(T) / 2; ++i) {
        halves[i] = static_cast<std::uint16_t>(0x2000u + random() % 0x1000u);
    }
}

const semantic::perf::kernel_roofs& roofs() {
    static const semantic::perf::kernel_roofs measured =
        semantic::perf::measure_kernel_roofs(chosen().name);
    return measured;
}

/// A rate, and its share of `roof` times `threads` in percent under the roof's name.
void set_rate(benchmark::State& state, const char* unit, double amount, const char* roof_name,
              double roof, int threads) {
    const auto per_second = benchmark::Counter::kIsIterationInvariantRate;
    state.counters[unit] = benchmark::Counter(amount * 1e-9, per_second);
    if (roof > 0)
        state.counters[std::string("%") + roof_name] =
            benchmark::Counter(100 * amount / (roof * threads), per_second);
}

enum class arithmetic { int8, f32 };

/// Of a product: bytes of weights or of K and V, and multiply-adds.
void set_rates(benchmark::State& state, double bytes, double products, arithmetic kind,
               int threads = 1) {
    set_rate(state, "GB/s", bytes, "memory", roofs().memory_bytes, threads);
    if (kind == arithmetic::int8) {
        set_rate(state, "GOP/s", 2 * products, "int8", roofs().int8_operations, threads);
    } else {
        set_rate(state, "GOP/s", 2 * products, "f32", roofs().f32_operations, threads);
    }
}

arithmetic arithmetic_of(weight_kind kind) {
    const bool floats =
        kind == weight_kind::f32 || kind == weight_kind::f16 || kind == weight_kind::bf16;
    return floats ? arithmetic::f32 : arithmetic::int8;
}

/// Rows of W, columns of W, rows of x.
void linear_kernel(benchmark::State& state, weight_kind kind) {
    const int rows = static_cast<int>(state.range(0)), cols = static_cast<int>(state.range(1));
    const int count = static_cast<int>(state.range(2));
    packed_matrix w{kind, scale_kind::f16, rows, cols, nullptr};
    aligned_buffer<std::byte> data(w.bytes());
    fill(data);
    w.data = data.data();
    const auto n = static_cast<std::size_t>(count) * static_cast<std::size_t>(cols);
    aligned_buffer<float> x(n), y(static_cast<std::size_t>(count * rows));
    aligned_buffer<float> scales(n / 64), sums(n / 64);
    aligned_buffer<std::int8_t> q(n);
    aligned_buffer<std::int16_t> part_sums(n / 16);
    fill(x);
    const kernel_table& table = chosen();
    table.quantize_rows(x.data(), count, cols, q.data(), scales.data(), sums.data());
    table.sum_parts(q.data(), n / 16, part_sums.data());
    const std::size_t ldy = static_cast<std::size_t>(rows);
    constexpr int block = 128;  // rows a task of gemm.cpp takes at once
    for (auto _ : state) {
        for (int tile = 0; tile < w.tiles(); tile += 8) {
            for (int m = 0; m < count; m += block) {
                const int part = std::min(block, count - m);
                float* out = y.data() + m * rows;
                if (w.quantized()) {
                    table.linear_quant(
                        w, tile, std::min(tile + 8, w.tiles()),
                        {q.data() + m * cols, scales.data() + m * (cols / 64),
                         sums.data() + m * (cols / 64), part_sums.data() + m * (cols / 16)},
                        part, out, ldy);
                } else {
                    table.linear_float(w, tile, std::min(tile + 8, w.tiles()), x.data() + m * cols,
                                       part, out, ldy);
                }
            }
        }
        benchmark::ClobberMemory();
    }
    set_rates(state, static_cast<double>(w.bytes()), static_cast<double>(rows) * cols * count,
              arithmetic_of(kind));
}

/// All threads, through gemm.cpp, quantisation of the activations included.
void linear_threaded(benchmark::State& state, weight_kind kind) {
    const int rows = static_cast<int>(state.range(0)), cols = static_cast<int>(state.range(1));
    const int count = static_cast<int>(state.range(2));
    packed_matrix w{kind, scale_kind::f16, rows, cols, nullptr};
    aligned_buffer<std::byte> data(w.bytes());
    fill(data);
    w.data = data.data();
    const auto n = static_cast<std::size_t>(count) * static_cast<std::size_t>(cols);
    aligned_buffer<float> x(n), y(static_cast<std::size_t>(count * rows));
    aligned_buffer<float> scratch(linear_scratch_floats(count, cols));
    fill(x);
    const task_runner tasks;
    for (auto _ : state) {
        linear(chosen(), tasks, w, x.data(), count, y.data(), static_cast<std::size_t>(rows),
               scratch.data());
        benchmark::ClobberMemory();
    }
    set_rates(state, static_cast<double>(w.bytes()), static_cast<double>(rows) * cols * count,
              arithmetic_of(kind), tasks.slots());
}

constexpr int frame_tokens = 256;

/// Keys or values of one head, frame by frame, each with its rows, scales and biases.
struct head_frames {
    head_frames(int of_bits, int of_dim, std::size_t frames)
        : bits(of_bits),
          dim(of_dim),
          row(static_cast<std::size_t>(of_dim * of_bits / 8)),
          groups(of_bits == 16 ? 0 : static_cast<std::size_t>(of_dim / 64)),
          data(frame_bytes() * frames) {
        fill(data);
    }
    std::size_t frame_bytes() const { return frame_tokens * (row + 4 * groups); }
    kv_rows view(std::size_t f) {
        const std::byte* at = data.data() + f * frame_bytes();
        const auto* s = reinterpret_cast<const half*>(at + frame_tokens * row);
        return {at, s, s + frame_tokens * groups, dim, bits, row, static_cast<int>(groups)};
    }

    int bits, dim;
    std::size_t row, groups;
    aligned_buffer<std::byte> data;
};

/// Bits of K and of V, head dimension, query rows, frames: one after another, as a long context is
/// read, each prefetching the next.
void attend_kernel(benchmark::State& state) {
    const int dim = static_cast<int>(state.range(2)), count = static_cast<int>(state.range(3));
    constexpr int tokens = frame_tokens;
    const auto frames = static_cast<std::size_t>(state.range(4));
    head_frames k(static_cast<int>(state.range(0)), dim, frames);
    head_frames v(static_cast<int>(state.range(1)), dim, frames);
    const auto n = static_cast<std::size_t>(count * dim);
    aligned_buffer<float> x(n), scales(n / 64), sums(n / 64);
    aligned_buffer<std::int8_t> q(n);
    fill(x);
    const kernel_table& table = chosen();
    table.quantize_rows(x.data(), count, dim, q.data(), scales.data(), sums.data());
    std::vector<int> begin(static_cast<std::size_t>(count), 0), end(begin.size(), tokens);
    std::vector<softmax_state> states(begin.size(), {-100.0f, 1.0f});
    std::vector<float> out(n);
    aligned_buffer<float> scratch(attention_scratch_floats(count, tokens, dim, dim));
    for (auto _ : state) {
        for (std::size_t f = 0; f < frames; ++f) {
            const std::size_t next = (f + 1) % frames;
            table.attend({count,
                          x.data(),
                          {q.data(), scales.data(), sums.data()},
                          k.view(f),
                          v.view(f),
                          begin.data(),
                          end.data(),
                          tokens,
                          0.125f,
                          states.data(),
                          out.data(),
                          scratch.data(),
                          k.view(next),
                          v.view(next),
                          tokens});
        }
        benchmark::ClobberMemory();
    }
    const auto all = static_cast<double>(frames);
    set_rates(state, static_cast<double>(k.frame_bytes() + v.frame_bytes()) * all,
              2.0 * count * dim * tokens * all, v.bits < 8 ? arithmetic::int8 : arithmetic::f32);
}

/// What works on rows of floats in L1, `elements` of them: GB/s of all that is read and written.
struct row_data {
    explicit row_data(benchmark::State& state)
        : elements(static_cast<std::size_t>(state.range(0))),
          x(elements),
          y(elements),
          z(elements),
          bytes(4 * elements) {
        fill(x);
        fill(y);
        fill(z);
    }
    int count() const { return static_cast<int>(elements); }

    std::size_t elements;
    aligned_buffer<float> x, y, z;
    aligned_buffer<std::byte> bytes;
};

/// Heads of 128 x 128 in turn, each for some tokens of one text: one head stays in L2 as while a
/// text is read; 768, those of Qwen3.5-4B's 24 layers, come out of memory as while one decodes.
void recurrence_kernel(benchmark::State& state,
                       void (*kernel_table::*kernel)(const recurrent_head&)) {
    constexpr std::size_t side = 128;
    const auto heads = static_cast<std::size_t>(state.range(0));
    const auto tokens = static_cast<std::size_t>(state.range(1));
    aligned_buffer<float> matrices(heads * side * side), vectors(4 * tokens * side),
        numbers(2 * tokens);
    std::minstd_rand random(3);
    const auto draw = [&](aligned_buffer<float>& to, float least, float most) {
        for (std::size_t i = 0; i < to.size(); ++i)
            to.data()[i] = least + (most - least) * static_cast<float>(random() % 1024) / 1024.0f;
    };
    draw(matrices, -1.0f, 1.0f);
    draw(vectors, -0.1f, 0.1f);
    draw(numbers, 0.5f, 0.99f);
    recurrent_head head;
    head.keys = vectors.data();
    head.queries = head.keys + tokens * side;
    head.values = head.queries + tokens * side;
    head.out = vectors.data() + 3 * tokens * side;
    head.decays = numbers.data();
    head.rates = head.decays + tokens;
    head.rows = head.cols = static_cast<int>(side);
    head.tokens = static_cast<int>(tokens);
    head.key_stride = head.value_stride = head.out_stride = side;
    head.number_stride = 1;
    for (auto _ : state) {
        for (std::size_t i = 0; i < heads; ++i) {
            head.from = head.to = matrices.data() + i * side * side;
            (chosen().*kernel)(head);
        }
        benchmark::ClobberMemory();
    }
    using benchmark::Counter;
    state.counters["a head and token"] = Counter(
        static_cast<double>(heads * tokens), Counter::kIsIterationInvariantRate | Counter::kInvert);
}
void recurrences(benchmark::internal::Benchmark* to) {
    to->ArgNames({"heads", "tokens"})->Args({1, 64})->Args({768, 1});
}

/// `body(data)` works on all elements; it touches `touched` bytes of each.
template <class Body>
void row_kernel(benchmark::State& state, double touched, Body body) {
    row_data data(state);
    for (auto _ : state) {
        body(data);
        benchmark::ClobberMemory();
    }
    set_rate(state, "GB/s", touched * static_cast<double>(data.elements), "L1", roofs().l1_bytes,
             1);
}

void quantize_rows_kernel(benchmark::State& state) {
    row_kernel(state, 5, [](row_data& d) {
        chosen().quantize_rows(d.x.data(), 1, d.count(),
                               reinterpret_cast<std::int8_t*>(d.bytes.data()), d.y.data(),
                               d.z.data());
    });
}
void rms_norm_kernel(benchmark::State& state) {
    row_kernel(state, 12, [](row_data& d) {
        chosen().rms_norm(d.x.data(), d.y.data(), d.z.data(), d.count(), 1e-5f, false);
    });
}
void add_kernel(benchmark::State& state) {
    row_kernel(state, 12, [](row_data& d) { chosen().add(d.x.data(), d.y.data(), d.elements); });
}
void silu_mul_kernel(benchmark::State& state) {
    row_kernel(state, 12,
               [](row_data& d) { chosen().silu_mul(d.x.data(), d.y.data(), d.elements); });
}
void gelu_mul_kernel(benchmark::State& state) {
    row_kernel(state, 12,
               [](row_data& d) { chosen().gelu_mul(d.x.data(), d.y.data(), d.elements); });
}
void swiglu_clamped_kernel(benchmark::State& state) {
    row_kernel(state, 12, [](row_data& d) {
        chosen().swiglu_clamped(d.x.data(), d.y.data(), d.elements, 1.702f, 7.0f);
    });
}
void exp_kernel(benchmark::State& state) {
    row_kernel(state, 8, [](row_data& d) { chosen().exp(d.x.data(), d.z.data(), d.elements); });
}
/// Heads of 64 elements.
void rope_kernel(benchmark::State& state) {
    row_kernel(state, 8, [](row_data& d) {
        for (std::size_t i = 0; i < d.elements; i += 64)
            chosen().rope(d.x.data() + i, d.y.data(), d.z.data(), 64);
    });
}
void quantize_kv_kernel(benchmark::State& state, int bits, kv_rounding rounding) {
    row_kernel(state, 4 + bits / 8.0, [=](row_data& d) {
        auto* scales = reinterpret_cast<half*>(d.y.data());
        chosen().quantize_kv(d.x.data(), d.count(), bits, rounding, d.bytes.data(), scales,
                             scales + d.elements / 64);
    });
}
/// Heads of 128 elements.
void rotate_kernel(benchmark::State& state) {
    row_kernel(state, 8, [](row_data& d) {
        for (std::size_t i = 0; i < d.elements; i += 128) chosen().rotate(d.x.data() + i, 128);
    });
}
/// States of 64 elements.
void merge_softmax_kernel(benchmark::State& state) {
    row_kernel(state, 12, [](row_data& d) {
        for (std::size_t i = 0; i < d.elements; i += 64) {
            softmax_state total{1.0f, 2.0f};
            chosen().merge_softmax(total, d.x.data() + i, {0.5f, 3.0f}, d.y.data() + i, 64);
        }
    });
}
void finish_softmax_kernel(benchmark::State& state) {
    row_kernel(state, 8, [](row_data& d) {
        for (std::size_t i = 0; i < d.elements; i += 64)
            chosen().finish_softmax({1.0f, 1.0f}, d.x.data() + i, 64);
    });
}
void embed_row_kernel(benchmark::State& state) {
    const int cols = static_cast<int>(state.range(0));
    packed_matrix w{weight_kind::q4, scale_kind::f16, 16, cols, nullptr};
    aligned_buffer<std::byte> data(w.bytes());
    fill(data);
    w.data = data.data();
    row_kernel(state, 4.5, [&](row_data& d) { chosen().embed_row(w, 3, d.z.data()); });
}

void shapes(benchmark::internal::Benchmark* bench) {
    for (const int rows : {2048, 8192}) {
        for (const int count : {1, 8, 32, 512}) {
            bench->Args({rows, 2048, count});
        }
    }
    bench->Args({2048, 8192, 1})->Args({2048, 8192, 512});
    bench->MinTime(0.2);
}

void attention(benchmark::internal::Benchmark* bench) {
    constexpr std::pair<int, int> all_bits[] = {{4, 4}, {8, 4}, {6, 4}, {5, 4}, {8, 5},
                                                {7, 5}, {6, 5}, {5, 5}, {8, 8}, {16, 16}};
    for (const int dim : {64, 128}) {
        for (const int count : {1, 3, 4, 6, 8, 16, 64, 256}) {
            for (const auto& [k, v] : all_bits) bench->Args({k, v, dim, count, 64});
        }
    }
    for (const int count : {1, 3, 4, 6}) {  // 75 MB and more, which come from memory
        for (const auto& [k, v] : all_bits) bench->Args({k, v, 64, count, 4096});
    }
    bench->MinTime(0.2);
}

BENCHMARK_CAPTURE(linear_kernel, q4, weight_kind::q4)->Apply(shapes);
BENCHMARK_CAPTURE(linear_kernel, q8, weight_kind::q8)->Apply(shapes);
BENCHMARK_CAPTURE(linear_kernel, mxfp4, weight_kind::mxfp4)->Apply(shapes);
BENCHMARK_CAPTURE(linear_kernel, q4_0, weight_kind::q4_0)->Apply(shapes);
BENCHMARK_CAPTURE(linear_kernel, q4_1, weight_kind::q4_1)->Apply(shapes);
BENCHMARK_CAPTURE(linear_kernel, q5_0, weight_kind::q5_0)->Apply(shapes);
BENCHMARK_CAPTURE(linear_kernel, q5_1, weight_kind::q5_1)->Apply(shapes);
BENCHMARK_CAPTURE(linear_kernel, q8_0, weight_kind::q8_0)->Apply(shapes);
BENCHMARK_CAPTURE(linear_kernel, iq4_nl, weight_kind::iq4_nl)->Apply(shapes);
BENCHMARK_CAPTURE(linear_kernel, iq4_xs, weight_kind::iq4_xs)->Apply(shapes);
BENCHMARK_CAPTURE(linear_kernel, q2_k, weight_kind::q2_k)->Apply(shapes);
BENCHMARK_CAPTURE(linear_kernel, q3_k, weight_kind::q3_k)->Apply(shapes);
BENCHMARK_CAPTURE(linear_kernel, q4_k, weight_kind::q4_k)->Apply(shapes);
BENCHMARK_CAPTURE(linear_kernel, q5_k, weight_kind::q5_k)->Apply(shapes);
BENCHMARK_CAPTURE(linear_kernel, q6_k, weight_kind::q6_k)->Apply(shapes);
BENCHMARK_CAPTURE(linear_kernel, bf16, weight_kind::bf16)->Apply(shapes);
BENCHMARK_CAPTURE(linear_kernel, f32, weight_kind::f32)->Apply(shapes);
BENCHMARK_CAPTURE(linear_threaded, q4, weight_kind::q4)->Apply(shapes)->UseRealTime();
BENCHMARK_CAPTURE(linear_threaded, q4_k, weight_kind::q4_k)->Apply(shapes)->UseRealTime();
BENCHMARK_CAPTURE(linear_threaded, q6_k, weight_kind::q6_k)->Apply(shapes)->UseRealTime();
BENCHMARK_CAPTURE(linear_threaded, bf16, weight_kind::bf16)->Apply(shapes)->UseRealTime();
BENCHMARK(attend_kernel)->Apply(attention);
BENCHMARK_CAPTURE(recurrence_kernel, delta_rule, &kernel_table::delta_rule)->Apply(recurrences);
BENCHMARK_CAPTURE(recurrence_kernel, state_space, &kernel_table::state_space)->Apply(recurrences);
BENCHMARK(quantize_rows_kernel)->Arg(2048);
BENCHMARK(rms_norm_kernel)->Arg(2048);
BENCHMARK(add_kernel)->Arg(2048);
BENCHMARK(silu_mul_kernel)->Arg(2048);
BENCHMARK(gelu_mul_kernel)->Arg(2048);
BENCHMARK(swiglu_clamped_kernel)->Arg(2048);
BENCHMARK(exp_kernel)->Arg(2048);
BENCHMARK(rope_kernel)->Arg(2048);
BENCHMARK_CAPTURE(quantize_kv_kernel, mlx_4, 4, kv_rounding::mlx)->Arg(2048);
BENCHMARK_CAPTURE(quantize_kv_kernel, mlx_8, 8, kv_rounding::mlx)->Arg(2048);
BENCHMARK_CAPTURE(quantize_kv_kernel, fitted_4, 4, kv_rounding::fitted)->Arg(2048);
BENCHMARK_CAPTURE(quantize_kv_kernel, fitted_5, 5, kv_rounding::fitted)->Arg(2048);
BENCHMARK_CAPTURE(quantize_kv_kernel, fitted_8, 8, kv_rounding::fitted)->Arg(2048);
BENCHMARK(rotate_kernel)->Arg(2048);
BENCHMARK(merge_softmax_kernel)->Arg(2048);
BENCHMARK(finish_softmax_kernel)->Arg(2048);
BENCHMARK(embed_row_kernel)->Arg(2048);

}  // namespace

int main(int argc, char** argv) {
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
    std::fprintf(stderr,
                 "%s, one thread: memory %.1f GB/s, L1 %.0f GB/s, int8 %.0f GOP/s, f32 %.0f "
                 "GOP/s\n",
                 chosen().name, roofs().memory_bytes * 1e-9, roofs().l1_bytes * 1e-9,
                 roofs().int8_operations * 1e-9, roofs().f32_operations * 1e-9);
    benchmark::RunSpecifiedBenchmarks();
    benchmark::Shutdown();
    return 0;
}
