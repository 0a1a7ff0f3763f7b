// SPDX-License-Identifier: Apache-2.0
#pragma once
// One model twice: as a folder of F32 safetensors with a config.json, and as the GGUF file that
// llama.cpp's converter would make of it. Written from the published description of both, with no
// code of the engine's but the meaning of a block's bytes.

#include <boost/json.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "storage/files/gguf.hpp"
#include "tests/support/gguf_writer.hpp"

namespace semantic::tests {

struct twin_tensor {
    std::vector<std::int64_t> shape;  // row-major
    std::vector<float> values;
    std::string blocks;  // the same rows in the matrices' type, or empty: kept as F32
};

struct model_twin {
    boost::json::object config;                         // as published
    std::map<std::string, twin_tensor> tensors;         // under published names
    storage::gguf_type type = storage::gguf_type::f32;  // of the matrices
    bool latent_apart = true;     // deepseek2: k_b and v_b in tensors of their own, as since 2025
    bool gate_up_merged = false;  // experts' gates and ups in one tensor
};

/// A small model of `model_type` ("llama", "qwen3_moe", ...) with random weights whose matrices are
/// random blocks of `type`; matrices whose rows are no whole blocks are F32.
model_twin random_twin(const std::string& model_type, storage::gguf_type type);
/// The published folder DIR; its floats are widened.
model_twin published_twin(const std::string& directory);

void write_folder(const model_twin& twin, const std::string& directory);
/// Metadata and tensors; more may be added before bytes() is taken.
gguf_writer gguf_of(const model_twin& twin);
void write_bytes(const std::string& path, const std::string& bytes);

}  // namespace semantic::tests
