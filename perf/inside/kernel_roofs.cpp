// SPDX-License-Identifier: Apache-2.0
#include "perf/inside/kernel_roofs.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <string_view>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace semantic::perf {

namespace {

double cpu_seconds() {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// Seconds of the fastest of some runs.
template <class Body>
double fastest(Body body) {
    double best = 1e9;
    for (int i = 0; i < 15; ++i) {
        const double start = cpu_seconds();
        body();
        best = std::min(best, cpu_seconds() - start);
    }
    return best;
}

thread_local volatile std::uint64_t sink = 0;  // what was computed was wanted

double read_memory() {
    const std::vector<std::uint64_t> memory(std::size_t{32} << 20, 1);
    const double seconds = fastest([&] {
        std::uint64_t sum = 0;
        for (const std::uint64_t word : memory) sum += word;
        sink = sink + sum;
    });
    return static_cast<double>(memory.size()) * 8 / seconds;
}

constexpr int l1_floats = 2048, l1_passes = 10'000;

/// x += y in L1 as often as l1_passes: two reads and a write. `add` is compiled for the instruction
/// set to be measured.
double touch_l1(void (*add)(float*, const float*)) {
    std::vector<float> x(l1_floats, 0.0f), y(l1_floats, 1.0f);
    const double seconds = fastest([&] {
        for (int i = 0; i < l1_passes; ++i) add(x.data(), y.data());
    });
    sink = sink + static_cast<std::uint64_t>(x[0]);
    return 12.0 * l1_floats * l1_passes / seconds;
}

void add_plain(float* x, const float* y) {
    for (int i = 0; i < l1_floats; ++i) x[i] += y[i];
}

constexpr int steps = 400'000;
// Enough chains that none waits for itself: latency 4, two units.
constexpr int chains = 12;

#if defined(__x86_64__)

__attribute__((target("avx512f"))) void add_avx512(float* x, const float* y) {
    for (int i = 0; i < l1_floats; i += 16)
        _mm512_storeu_ps(x + i, _mm512_add_ps(_mm512_loadu_ps(x + i), _mm512_loadu_ps(y + i)));
}

__attribute__((target("avx2"))) void add_avx2(float* x, const float* y) {
    for (int i = 0; i < l1_floats; i += 8)
        _mm256_storeu_ps(x + i, _mm256_add_ps(_mm256_loadu_ps(x + i), _mm256_loadu_ps(y + i)));
}

__attribute__((target("avx512f,avx512vnni"))) void int8_avx512() {
    __m512i sums[chains], x = _mm512_set1_epi8(3);
    for (__m512i& sum : sums) sum = _mm512_setzero_si512();
    for (int i = 0; i < steps; ++i) {
#pragma GCC unroll 12
        for (int c = 0; c < chains; ++c) sums[c] = _mm512_dpbusd_epi32(sums[c], x, x);
        __asm__ volatile("" : "+v"(x));
    }
    std::int32_t lanes[16];
    for (const __m512i& sum : sums) {
        _mm512_storeu_si512(lanes, sum);
        sink = sink + static_cast<std::uint64_t>(lanes[0]);
    }
}

__attribute__((target("avx512f"))) void f32_avx512() {
    __m512 sums[chains], x = _mm512_set1_ps(0.5f);
    for (__m512& sum : sums) sum = _mm512_setzero_ps();
    for (int i = 0; i < steps; ++i) {
#pragma GCC unroll 12
        for (int c = 0; c < chains; ++c) sums[c] = _mm512_fmadd_ps(x, x, sums[c]);
        __asm__ volatile("" : "+v"(x));
    }
    float lanes[16];
    for (const __m512& sum : sums) {
        _mm512_storeu_ps(lanes, sum);
        sink = sink + static_cast<std::uint64_t>(lanes[0]);
    }
}

/// Pairs of products added in 16 bits: what AVX2 has instead. That 4-bit codes carry to 32 bits
/// after 8 additions is left out, since a roof may not be lower than what is measured under it. In
/// assembly, because GCC 12 keeps some of so many chains in memory.
__attribute__((target("avx2"))) void int8_avx2() {
    __m256i a = _mm256_setzero_si256(), b = a, c = a, d = a;
    const __m256i x = _mm256_set1_epi8(3);
    for (int i = 0; i < steps * chains; i += 4) {
        __asm__ volatile(
            "vpmaddubsw %4, %4, %%ymm12\n\tvpaddw %%ymm12, %0, %0\n\t"
            "vpmaddubsw %4, %4, %%ymm13\n\tvpaddw %%ymm13, %1, %1\n\t"
            "vpmaddubsw %4, %4, %%ymm14\n\tvpaddw %%ymm14, %2, %2\n\t"
            "vpmaddubsw %4, %4, %%ymm15\n\tvpaddw %%ymm15, %3, %3"
            : "+x"(a), "+x"(b), "+x"(c), "+x"(d)
            : "x"(x)
            : "xmm12", "xmm13", "xmm14", "xmm15");
    }
    for (const __m256i& sum : {a, b, c, d})
        sink = sink + static_cast<std::uint64_t>(_mm256_extract_epi32(sum, 0));
}

__attribute__((target("avx2,avxvnni"))) void int8_avxvnni() {
    __m256i sums[chains], x = _mm256_set1_epi8(3);
    for (__m256i& sum : sums) sum = _mm256_setzero_si256();
    for (int i = 0; i < steps; ++i) {
#pragma GCC unroll 12
        for (int c = 0; c < chains; ++c) sums[c] = _mm256_dpbusd_avx_epi32(sums[c], x, x);
        __asm__ volatile("" : "+v"(x));
    }
    for (const __m256i& sum : sums)
        sink = sink + static_cast<std::uint64_t>(_mm256_extract_epi32(sum, 0));
}

__attribute__((target("avx2,fma"))) void f32_avx2() {
    __m256 sums[chains], x = _mm256_set1_ps(0.5f);
    for (__m256& sum : sums) sum = _mm256_setzero_ps();
    for (int i = 0; i < steps; ++i) {
#pragma GCC unroll 12
        for (int c = 0; c < chains; ++c) sums[c] = _mm256_fmadd_ps(x, x, sums[c]);
        __asm__ volatile("" : "+v"(x));
    }
    for (const __m256& sum : sums) sink = sink + static_cast<std::uint64_t>(_mm256_cvtss_f32(sum));
}

void measure_vectors(std::string_view kernels, kernel_roofs& found) {
    const double products = static_cast<double>(steps) * chains;
    if (kernels == "avx512") {
        found.l1_bytes = touch_l1(add_avx512);
        found.int8_operations = 2 * 64 * products / fastest(int8_avx512);
        found.f32_operations = 2 * 16 * products / fastest(f32_avx512);
    } else if (kernels == "avx2" || kernels == "avxvnni") {
        found.l1_bytes = touch_l1(add_avx2);
        found.int8_operations =
            2 * 32 * products / fastest(kernels == "avx2" ? int8_avx2 : int8_avxvnni);
        found.f32_operations = 2 * 8 * products / fastest(f32_avx2);
    }
}

#else

void measure_vectors(std::string_view, kernel_roofs&) {}

#endif

}  // namespace

kernel_roofs measure_kernel_roofs(const char* kernels) {
    kernel_roofs found;
    found.memory_bytes = read_memory();
    found.l1_bytes = touch_l1(add_plain);
    measure_vectors(kernels, found);
    return found;
}

}  // namespace semantic::perf
