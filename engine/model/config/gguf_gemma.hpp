// SPDX-License-Identifier: Apache-2.0
#pragma once
// Translates the metadata of Gemma 4's GGUF files into its config.json. Used by gguf_config.cpp
// only. Owner: the reader, on its stack. Thread: one.

#include <boost/json.hpp>

#include <cstdint>
#include <functional>
#include <string>

#include "engine/model/config/gguf_fields.hpp"

namespace semantic::engine {

/// Adds the fields that are Gemma 4's own to `config`: attention (heads, KV heads, dims and rope of
/// both kinds of layers, which layers slide, which read another layer's keys and values), MLPs and
/// experts, per-layer embeddings, and the cap of logits. `keys`: the file's metadata, which gets a
/// complaint if a number is missing or differs between layers of one kind. `layers`: at least 1.
/// `has_tensor`: whether the file has a tensor with this name. `config`: has vocab_size already.
/// Returns: the elements of a head in layers without window, to which the file's divisors of rope
/// apply.
std::int64_t read_gguf_gemma4(gguf_fields& keys, std::int64_t layers,
                              const std::function<bool(const std::string&)>& has_tensor,
                              boost::json::object& config);

}  // namespace semantic::engine
