// SPDX-License-Identifier: Apache-2.0
#pragma once
// Translates a GGUF's metadata into the config.json and generation_config.json that a published
// folder has, so that one reader checks both. Stateless; thread: any.
// Source: the keys as llama.cpp's converter writes them (gguf-py/gguf/constants.py and
// convert_hf_to_gguf.py, read 2026-11).

#include <boost/json.hpp>

#include <string_view>
#include <vector>

#include "storage/files/gguf.hpp"
#include "storage/types/errc.hpp"

namespace semantic::engine {

/// An architecture of GGUF files and its family of models.
struct gguf_architecture {
    std::string_view name;        // general.architecture
    std::string_view model_type;  // of config.json
    bool permuted_rope = false;   // q and k rows are ordered for rope of neighbouring elements
};
/// The architecture with this name; null if it is not supported.
const gguf_architecture* find_architecture(std::string_view name);

struct gguf_config {
    boost::json::object config, generation;
    std::vector<float> rope_factors;  // [head_dim / 2] divisors of rope's frequencies, or empty
    bool qkv_bias = false;            // whether the first layer has such tensors
    bool o_bias = false;
    bool keys_in_turn = false;  // see recurrence_config
};

/// `parts`: the files of one model; the first has the metadata. Errors: incompatible, with the key
/// or tensor that is missing or not supported.
storage::result<gguf_config> read_gguf_config(const std::vector<storage::gguf_file>& parts);

}  // namespace semantic::engine
