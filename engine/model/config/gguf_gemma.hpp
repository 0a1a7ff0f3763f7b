// SPDX-License-Identifier: Apache-2.0
#pragma once
// The metadata of Gemma 4's GGUF files, as its config.json has it. Used by gguf_config.cpp only.
// Owner: the reader, on its stack. Thread: one.

#include <boost/json.hpp>

#include <cstdint>
#include <functional>
#include <string>

#include "engine/model/config/gguf_fields.hpp"

namespace semantic::engine {

/// Adds to `config`, under the names of Gemma 4's config.json, what the file says of its attention
/// (heads, KV heads, lengths and rope of either kind of layer, which layers slide, which read
/// others' keys and values), of its MLPs and experts, of the inputs of each layer, and the cap of
/// logits. `keys`: of the file; complains where a number differs between layers of one kind, or is
/// missing. `layers`: at least 1. `has_tensor`: whether the file has one of that name. `config`:
/// has vocab_size. Returns: the elements of a head in layers without window, which rope's divisors
/// in the file are for.
std::int64_t read_gguf_gemma4(gguf_fields& keys, std::int64_t layers,
                              const std::function<bool(const std::string&)>& has_tensor,
                              boost::json::object& config);

}  // namespace semantic::engine
