// SPDX-License-Identifier: Apache-2.0
#pragma once
// Makes GGUF files field by field, valid ones and invalid ones.

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "storage/files/gguf.hpp"

namespace semantic::tests {

class gguf_writer {
  public:
    std::uint32_t version = 3;
    std::uint64_t alignment = 32;     // as written to; the metadata value is the caller's
    std::uint64_t extra_tensors = 0;  // that the header counts and the file lacks
    std::uint64_t extra_pairs = 0;

    /// The value in the byte order of the file.
    template <class T>
    static std::string raw(T value) {
        std::string bytes(sizeof(T), '\0');
        std::memcpy(bytes.data(), &value, sizeof(T));
        return bytes;
    }
    /// A string as the file has it: its length and its bytes.
    static std::string text(std::string_view value) {
        return raw(std::uint64_t{value.size()}) + std::string(value);
    }

    /// Adds a metadata value of any type, given as its bytes.
    gguf_writer& pair(std::string_view key, storage::gguf_value_type type, std::string bytes) {
        pairs_.push_back(text(key) + raw(static_cast<std::uint32_t>(type)) + std::move(bytes));
        return *this;
    }
    gguf_writer& pair(std::string_view key, std::string_view value) {
        return pair(key, storage::gguf_value_type::string, text(value));
    }
    gguf_writer& pair(std::string_view key, std::uint32_t value) {
        return pair(key, storage::gguf_value_type::u32, raw(value));
    }
    gguf_writer& pair(std::string_view key, const std::vector<std::string>& values) {
        std::string bytes = raw(static_cast<std::uint32_t>(storage::gguf_value_type::string)) +
                            raw(std::uint64_t{values.size()});
        for (const std::string& value : values) bytes += text(value);
        return pair(key, storage::gguf_value_type::array, std::move(bytes));
    }

    /// Adds a tensor at the next aligned offset. `dimensions`: as the file has them, the row's
    /// length first.
    gguf_writer& tensor(std::string_view name, std::vector<std::uint64_t> dimensions,
                        std::uint32_t type, std::string bytes) {
        data_.resize((data_.size() + alignment - 1) / alignment * alignment, '\0');
        return tensor_at(name, std::move(dimensions), type, data_.size(), std::move(bytes));
    }
    /// Adds a tensor with this offset, right or wrong; its bytes go after the others'.
    gguf_writer& tensor_at(std::string_view name, std::vector<std::uint64_t> dimensions,
                           std::uint32_t type, std::uint64_t offset, std::string bytes) {
        std::string entry = text(name) + raw(static_cast<std::uint32_t>(dimensions.size()));
        for (const std::uint64_t extent : dimensions) entry += raw(extent);
        tensors_.push_back(entry + raw(type) + raw(offset));
        data_ += bytes;
        return *this;
    }

    /// The whole file.
    std::string bytes() const {
        std::string file = "GGUF" + raw(version) + raw(tensors_.size() + extra_tensors) +
                           raw(pairs_.size() + extra_pairs);
        for (const std::string& each : pairs_) file += each;
        for (const std::string& each : tensors_) file += each;
        if (!data_.empty()) file.resize((file.size() + alignment - 1) / alignment * alignment);
        return file + data_;
    }

  private:
    std::vector<std::string> pairs_;
    std::vector<std::string> tensors_;
    std::string data_;
};

}  // namespace semantic::tests
