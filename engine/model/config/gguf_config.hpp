// SPDX-License-Identifier: Apache-2.0
#pragma once
// A GGUF's metadata as the config.json and generation_config.json that a published folder has, so
// that both are checked by one reader. Stateless; thread: any.
// Source: the keys as llama.cpp's converter writes them (gguf-py/gguf/constants.py and
// convert_hf_to_gguf.py, read 2026-11).

#include <boost/json.hpp>

#include <string_view>
#include <vector>

#include "storage/files/gguf.hpp"
#include "storage/types/errc.hpp"

namespace semantic::engine {

/// An architecture of GGUF files and the family of models that it is.
struct gguf_architecture {
    std::string_view name;        // general.architecture
    std::string_view model_type;  // of config.json
    bool permuted_rope = false;   // q and k rows lie so that neighbouring elements turn together
};
/// Null when there is none of that name.
const gguf_architecture* find_architecture(std::string_view name);

struct gguf_config {
    boost::json::object config, generation;
    std::vector<float> rope_factors;  // [head_dim / 2] that each frequency is divided by, or empty
    bool qkv_bias = false;            // as the first layer's tensors say
    bool o_bias = false;
    bool keys_in_turn = false;  // recurrence_config
};

/// `parts`: of one model, the first with the metadata. Errors: incompatible, naming the key or
/// tensor and what this program does not support about it.
storage::result<gguf_config> read_gguf_config(const std::vector<storage::gguf_file>& parts);

}  // namespace semantic::engine
