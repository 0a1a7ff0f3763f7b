// SPDX-License-Identifier: Apache-2.0
// Chooses a table of kernels by what the CPU and the operating system support, and has the
// conversions of numbers that all tables share.

#include <array>
#include <bit>

#include "engine/kernels/block_forms.hpp"
#include "engine/kernels/tables.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace semantic::engine {
namespace {

#if defined(__x86_64__)
// __builtin_cpu_supports() also checks that the operating system saves the registers.
bool has_avx2() noexcept {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
           __builtin_cpu_supports("f16c");
}

/// Asks the CPU itself (leaf 7, part 1, bit 4 of EAX), since not every compiler's
/// __builtin_cpu_supports() knows the name. Its registers are those of AVX2, which is checked, too.
bool has_avxvnni() noexcept {
    unsigned last = 0, features = 0, b = 0, c = 0, d = 0;
    return has_avx2() && __get_cpuid_count(7, 0, &last, &b, &c, &d) != 0 && last >= 1 &&
           __get_cpuid_count(7, 1, &features, &b, &c, &d) != 0 && (features >> 4 & 1) != 0;
}

bool has_avx512() noexcept {
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vnni");
}
#endif

/// The tables that this machine can run, the fastest first, and their names.
struct choices {
    std::array<const kernel_table*, 5> tables{};
    std::array<std::string_view, 5> names{};
    std::size_t count = 0;

    void offer(const kernel_table& table) noexcept {
        tables[count] = &table;
        names[count++] = table.name;
    }
};

/// What this machine can run; asked once, since it does not change.
const choices& available() noexcept {
    static const choices all = [] {
        choices found;
#if defined(__x86_64__)
        if (has_avx512()) {
            found.offer(avx512_kernels());
        }
        if (has_avxvnni()) {
            found.offer(avxvnni_kernels());
        }
        if (has_avx2()) {
            found.offer(avx2_kernels());
        }
#endif
        found.offer(portable_kernels());
        found.offer(scalar_kernels());
        return found;
    }();
    return all;
}

}  // namespace

const kernel_table* find_kernels(std::string_view name) noexcept {
    const choices& all = available();
    if (name == "auto") {
        return all.tables[0];
    }
    for (std::size_t i = 0; i < all.count; ++i) {
        if (all.names[i] == name) {
            return all.tables[i];
        }
    }
    return nullptr;
}

std::span<const std::string_view> available_kernels() noexcept {
    return {available().names.data(), available().count};
}

int packed_matrix::record_inputs() const noexcept {
    return is_block_kind(kind) ? block_form_of(kind).groups * group_size : group_size;
}

std::size_t packed_matrix::record_bytes() const noexcept {
    if (is_block_kind(kind)) {
        return static_cast<std::size_t>(block_form_of(kind).record_bytes());
    }
    if (kind == weight_kind::mxfp4) {
        return 2 * lane_count + lane_count * group_size / 2;
    }
    const std::size_t scale_bytes = scales == scale_kind::f32 ? 4 : 2;
    return 2 * lane_count * scale_bytes +
           lane_count * group_size / (kind == weight_kind::q4 ? 2 : 1);
}

std::size_t packed_matrix::tile_bytes() const noexcept {
    const auto width = static_cast<std::size_t>(cols);
    if (quantized()) {
        return width / static_cast<std::size_t>(record_inputs()) * record_bytes();
    }
    return width * lane_count * (kind == weight_kind::f32 ? 4 : 2);
}

float to_float(half value) noexcept {
    const std::uint32_t sign = static_cast<std::uint32_t>(value & 0x8000u) << 16;
    const std::uint32_t exponent = value >> 10 & 31u, fraction = value & 1023u;
    if (exponent == 31) {  // infinity keeps its sign, a NaN becomes quiet
        const std::uint32_t quiet = fraction != 0 ? 0x400000u : 0u;
        return std::bit_cast<float>(sign | 0x7f800000u | fraction << 13 | quiet);
    }
    if (exponent == 0) {
        const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
        return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
    }
    return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
}

half to_half(float value) noexcept {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) {  // NaN keeps its upper bits and becomes quiet
        return static_cast<half>(sign | 0x7e00u | (magnitude >> 13 & 0x3ffu));
    }
    if (magnitude >= 0x477ff000u) {  // 65520, half way to the next power of two
        return static_cast<half>(sign | 0x7c00u);
    }
    if (magnitude < 0x38800000u) {  // below 2^-14: a multiple of 2^-24, rounded by the addition
        const float rounded = std::bit_cast<float>(magnitude) + 0.5f;
        return static_cast<half>(sign | (std::bit_cast<std::uint32_t>(rounded) - 0x3f000000u));
    }
    const std::uint32_t to_even = magnitude + 0xfffu + (magnitude >> 13 & 1u);
    return static_cast<half>(sign | (to_even - 0x38000000u) >> 13);
}

}  // namespace semantic::engine
