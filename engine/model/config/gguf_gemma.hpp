#pragma once
// The metadata of Gemma 4's GGUF files, as its config.json has it. Used by gguf_config.cpp only.
// Owner: the reader, on its stack. Thread: one.

#include <boost/json.hpp>

#include <cstdint>
#include <functional>
#include <string>

#include "engine/model/config/gguf_fields.hpp"

namespace semantic::engine {

/// Adds to `config` what layers are and differ in. `has_tensor`: whether the file has one of that
/// name. Returns: the elements of a head in layers without window.
std::int64_t read_gguf_gemma4(gguf_fields& keys, std::int64_t layers,
                              const std::function<bool(const std::string&)>& has_tensor,
                              boost::json::object& config);

}  // namespace semantic::engine
