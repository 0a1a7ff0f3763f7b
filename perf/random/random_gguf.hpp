// SPDX-License-Identifier: Apache-2.0
#pragma once
// What writes a GGUF file with random weights: metadata, tensors that are planned before they are
// made, and the words of a Hugging Face folder. Every machine makes the same file.
// Thread: any; blocks on files. Errors: std::runtime_error, naming the file.

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "storage/files/gguf.hpp"

namespace semantic::perf {

/// The bytes of a number as the file has them.
template <class T>
std::string raw(T value) {
    std::string bytes(sizeof value, '\0');
    std::memcpy(bytes.data(), &value, sizeof value);
    return bytes;
}

/// How a tensor's values come about.
enum class filling {
    normal,  // deviation 1 / sqrt(row)
    ones,    // a norm's weights
    small,   // 0.3: of a norm whose rows are multiplied with each other and not scaled down
    decay,   // minus 0.02 to 8
};

struct tensor_plan {
    std::string name;
    std::vector<std::uint64_t> extents;  // the row's length first
    /// F32, Q4_K, Q6_K or Q5_0.
    storage::gguf_type type = storage::gguf_type::f32;
    filling values = filling::normal;
    std::vector<float> given = {};  // the values, where they are known; F32 only

    std::uint64_t count() const;
    std::uint64_t bytes() const;
};

/// A matrix [rows, row] in Q4_K, or Q5_0 where its rows are no whole blocks of that, as
/// llama-quantize writes them.
tensor_plan matrix_of(const std::string& name, int row, int rows,
                      storage::gguf_type type = storage::gguf_type::q4_k);
tensor_plan vector_of(const std::string& name, int length, filling values);

/// Key and value pairs of a file's head.
class gguf_facts {
  public:
    void add(const std::string& key, std::uint32_t value);
    void add(const std::string& key, float value);
    void add(const std::string& key, std::string_view value);
    void add(const std::string& key, storage::gguf_value_type element, std::uint64_t length,
             const std::string& values);
    /// The words and the template of `folder`, which has a byte-level BPE; ids that it lacks get a
    /// text of their own ("w4096"). Errors: the folder has more words than `vocabulary`.
    void add_words(const std::string& folder, int vocabulary);
    std::uint64_t count() const noexcept { return count_; }
    const std::string& bytes() const noexcept { return bytes_; }

  private:
    void put(const std::string& key, storage::gguf_value_type type, const std::string& value);
    std::uint64_t count_ = 0;
    std::string bytes_;
};

void write_random_gguf(const gguf_facts& facts, const std::vector<tensor_plan>& tensors,
                       unsigned seed, const std::string& to);

}  // namespace semantic::perf
