// SPDX-License-Identifier: Apache-2.0
#pragma once
// GGUF files whose matrices tests round to blocks, each next to one of the floats of its blocks.

#include <string>

#include "storage/files/gguf.hpp"

namespace semantic::tests {

constexpr int super_block = 256;  // values of a block of Q4_K

/// 256 values as a block of Q4_K, which they become.
std::string round_super_block(float* values);

struct retyped_gguf {
    std::string blocks, floats;  // contents of files
    int matrices = 0;            // that have another type in `blocks` than in the file
};

/// The file at `path` with its bf16 matrices in another type, and with the floats that these are.
/// `type`: F32, Q8_0, Q4_0 or Q4_K. Rows that are no whole blocks of Q4_K become Q4_0, and those
/// that are no whole blocks of that stay as they are.
retyped_gguf retype(const std::string& path, storage::gguf_type type);

}  // namespace semantic::tests
