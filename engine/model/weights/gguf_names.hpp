#pragma once
// The tensors of a GGUF under the names that published folders give them, so that one list of a
// model's tensors serves both. Stateless; thread: any.
// Source: llama.cpp's table of tensor names (gguf-py/gguf/constants.py, read 2026-11).

#include <string_view>
#include <vector>

#include "engine/model/weights/weight_files.hpp"
#include "storage/files/gguf.hpp"
#include "storage/types/errc.hpp"

namespace semantic::engine {

/// All tensors of `view`, in its order; those that only say how rope is scaled are left out.
/// Errors: incompatible, naming a tensor that this program has no use for in that architecture, or
/// whose type it does not read.
storage::result<std::vector<stored_tensor>> published_tensors(const storage::gguf_view& view,
                                                              std::string_view architecture);

}  // namespace semantic::engine
