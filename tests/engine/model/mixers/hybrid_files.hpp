// SPDX-License-Identifier: Apache-2.0
#pragma once
// Files of hybrids that tests make of the golden ones, and how far their logits are off.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "engine/kernels/kernels.hpp"
#include "storage/files/gguf.hpp"
#include "tests/engine/model/loaded_model.hpp"
#include "tests/support/gguf_writer.hpp"

namespace semantic::tests {

inline void copy_pair(gguf_writer& out, const std::string& key, const storage::gguf_value& value) {
    std::visit(
        [&](const auto& held) {
            using held_type = std::decay_t<decltype(held)>;
            if constexpr (std::is_same_v<held_type, std::string_view>) {
                out.pair(key, held);
            } else if constexpr (std::is_same_v<held_type, storage::gguf_array>) {
                std::string bytes = gguf_writer::raw(static_cast<std::uint32_t>(held.type)) +
                                    gguf_writer::raw(std::uint64_t{held.count});
                bytes.append(reinterpret_cast<const char*>(held.packed.data()), held.packed.size());
                for (const std::string_view each : held.strings) bytes += gguf_writer::text(each);
                out.pair(key, storage::gguf_value_type::array, std::move(bytes));
            } else if constexpr (std::is_same_v<held_type, bool>) {
                out.pair(key, storage::gguf_value_type::boolean,
                         std::string(1, held ? '\1' : '\0'));
            } else {
                const storage::gguf_value_type type =
                    std::is_same_v<held_type, float>           ? storage::gguf_value_type::f32
                    : std::is_same_v<held_type, double>        ? storage::gguf_value_type::f64
                    : std::is_same_v<held_type, std::uint64_t> ? storage::gguf_value_type::u64
                                                               : storage::gguf_value_type::i64;
                out.pair(key, type, gguf_writer::raw(held));
            }
        },
        value);
}

inline std::vector<float> widen(const storage::gguf_tensor& tensor) {
    std::vector<float> values(tensor.bytes.size() / 2);
    for (std::size_t i = 0; i < values.size(); ++i) {
        engine::bfloat bits;
        std::memcpy(&bits, tensor.bytes.data() + 2 * i, sizeof bits);
        values[i] = engine::bfloat_to_float(bits);
    }
    return values;
}

inline std::string as_bytes(const std::vector<float>& values) {
    return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

/// Of 120 tokens in chunks of 48. `compensated`: as transformer_limits.
inline std::vector<float> logits_of(const std::string& path, bool compensated = false) {
    model_run run;
    run.folder = path;
    run.compensated = compensated;
    loaded_model m(run);
    if (!m) return {};
    std::vector<storage::token_id> ids;
    for (int i = 0; i < 120; ++i) ids.push_back((i * 37 + 11) % m.config().vocabulary);
    return m.logits(*m.new_sequence(), ids, 48);
}

inline void write_file(const std::string& path, const std::string& bytes) {
    std::ofstream out(path, std::ios::binary);
    out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

/// Root mean square of the difference over the spread of the expected; of each position, the
/// median. A token that a mixture routes differently changes its own positions.
inline double median_error(const std::vector<float>& got, const std::vector<float>& expected) {
    constexpr std::size_t vocabulary = 320;
    EXPECT_EQ(got.size(), expected.size());
    EXPECT_FALSE(got.empty());
    if (got.size() != expected.size() || got.empty()) return 1.0;
    std::vector<double> errors;
    for (std::size_t first = 0; first < got.size(); first += vocabulary) {
        double sum = 0.0, squares = 0.0, difference = 0.0;
        for (std::size_t i = first; i < first + vocabulary; ++i) {
            const double right = static_cast<double>(expected[i]);
            sum += right;
            squares += right * right;
            difference +=
                (static_cast<double>(got[i]) - right) * (static_cast<double>(got[i]) - right);
        }
        const double mean = sum / vocabulary;
        errors.push_back(std::sqrt(difference / (squares - vocabulary * mean * mean)));
    }
    std::nth_element(errors.begin(),
                     errors.begin() + static_cast<std::ptrdiff_t>(errors.size() / 2), errors.end());
    return errors[errors.size() / 2];
}

}  // namespace semantic::tests
