// SPDX-License-Identifier: Apache-2.0
#pragma once
// Typed reading of the metadata of one GGUF architecture. Used by gguf_config.cpp only.
// Owner: the reader, on its stack. Thread: one.

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "storage/files/gguf.hpp"

namespace semantic::engine {

/// Reads keys that begin with the architecture's name: integer("block_count") reads
/// llama.block_count. A value of the wrong type sets `complaint`, unless it is set, and the read
/// returns nothing; so callers read all keys and check the complaint once at the end.
class gguf_fields {
  public:
    gguf_fields(const storage::gguf_view& view, std::string_view architecture,
                std::string& complaint)
        : view_(view), prefix_(std::string(architecture) + "."), complaint_(complaint) {}

    /// A whole number, or the common value of an array; nothing if the key is missing.
    std::optional<std::int64_t> integer(std::string_view key) {
        const storage::gguf_value* value = find(prefix_ + std::string(key));
        if (value == nullptr) return std::nullopt;
        if (const auto* array = std::get_if<storage::gguf_array>(value)) return one_of(key, *array);
        if (const auto* number = std::get_if<std::uint64_t>(value))
            return *number <= largest ? static_cast<std::int64_t>(*number) : refuse_number(key);
        if (const auto* number = std::get_if<std::int64_t>(value)) return *number;
        return refuse_number(key);
    }
    /// A number for each of `count` layers (the file may have more), or one number for all.
    /// Booleans count as 0 and 1. Returns: nothing if the key is missing, or has something else,
    /// which is a complaint.
    std::optional<std::vector<std::int64_t>> integers(std::string_view key, std::size_t count) {
        const storage::gguf_value* value = find(prefix_ + std::string(key));
        if (value == nullptr) return std::nullopt;
        const auto* array = std::get_if<storage::gguf_array>(value);
        if (array == nullptr) {
            const auto one = integer(key);
            if (!one) return std::nullopt;
            return std::vector<std::int64_t>(count, *one);
        }
        if (array->type == storage::gguf_value_type::string || array->count < count) {
            complain(prefix_ + std::string(key) + " does not have a number for each of " +
                     std::to_string(count) + " layers");
            return std::nullopt;
        }
        std::vector<std::int64_t> numbers;
        for (std::size_t i = 0; i < count; ++i) {
            const double number = array->number(i);
            if (!(std::nearbyint(number) == number &&
                  std::abs(number) <= static_cast<double>(largest))) {
                refuse_number(key);
                return std::nullopt;
            }
            numbers.push_back(static_cast<std::int64_t>(number));
        }
        return numbers;
    }
    /// As integer(); a missing key is a complaint.
    std::int64_t needed(std::string_view key) {
        if (const auto value = integer(key)) return *value;
        complain(prefix_ + std::string(key) + " is missing");
        return 0;
    }
    std::optional<double> real(std::string_view key) { return real_at(prefix_ + std::string(key)); }
    std::optional<bool> boolean(std::string_view key) {
        const std::string name = prefix_ + std::string(key);
        const storage::gguf_value* value = find(name);
        if (value == nullptr) return std::nullopt;
        if (const auto* flag = std::get_if<bool>(value)) return *flag;
        complain(name + " is no boolean");
        return std::nullopt;
    }
    /// Returns: "" if the key is missing.
    std::string string(std::string_view key) {
        const std::string name = prefix_ + std::string(key);
        const storage::gguf_value* value = find(name);
        if (value == nullptr) return "";
        if (const auto* text = std::get_if<std::string_view>(value)) return std::string(*text);
        complain(name + " is no string");
        return "";
    }
    /// As real(), for a key with its whole name.
    std::optional<double> real_at(const std::string& name) {
        const storage::gguf_value* value = find(name);
        if (value == nullptr) return std::nullopt;
        return std::visit(
            [&](const auto& held) -> std::optional<double> {
                using held_type = std::decay_t<decltype(held)>;
                if constexpr (std::is_arithmetic_v<held_type> && !std::is_same_v<held_type, bool>) {
                    if (std::isfinite(static_cast<double>(held))) return static_cast<double>(held);
                }
                complain(name + " is no finite number");
                return std::nullopt;
            },
            *value);
    }

    bool has(std::string_view key) const { return find(prefix_ + std::string(key)) != nullptr; }
    std::string name_of(std::string_view key) const { return prefix_ + std::string(key); }
    void complain(std::string message) {
        if (complaint_.empty()) complaint_ = std::move(message);
    }

  private:
    static constexpr std::uint64_t largest = std::uint64_t{1} << 53;

    const storage::gguf_value* find(const std::string& name) const {
        const auto at = view_.metadata.find(name);
        return at == view_.metadata.end() ? nullptr : &at->second;
    }
    /// The common value of an array with a number for each layer; a complaint if they differ.
    std::optional<std::int64_t> one_of(std::string_view key, const storage::gguf_array& array) {
        const bool numbers = array.type != storage::gguf_value_type::string &&
                             array.type != storage::gguf_value_type::boolean && array.count > 0;
        if (!numbers) return refuse_number(key);
        const double first = array.number(0);
        for (std::size_t i = 1; i < array.count; ++i) {
            if (array.number(i) != first) {
                complain(prefix_ + std::string(key) +
                         " differs from layer to layer, which is not supported");
                return std::nullopt;
            }
        }
        if (!(std::nearbyint(first) == first && std::abs(first) <= static_cast<double>(largest)))
            return refuse_number(key);
        return static_cast<std::int64_t>(first);
    }
    std::optional<std::int64_t> refuse_number(std::string_view key) {
        complain(prefix_ + std::string(key) + " is no whole number");
        return std::nullopt;
    }

    const storage::gguf_view& view_;
    std::string prefix_;
    std::string& complaint_;
};

}  // namespace semantic::engine
