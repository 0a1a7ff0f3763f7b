// SPDX-License-Identifier: Apache-2.0
#pragma once
// Translates the names of a GGUF's tensors into those of published folders, so that one plan of a
// model's tensors serves both. Stateless; thread: any.
// Source: llama.cpp's table of tensor names (gguf-py/gguf/constants.py, read 2026-11).

#include <cstdint>
#include <string_view>
#include <vector>

#include "engine/model/weights/weight_files.hpp"
#include "storage/files/gguf.hpp"
#include "storage/types/errc.hpp"

namespace semantic::engine {

/// The layers of a file that predict further tokens (multi-token prediction), which are not used:
/// the last `count` ones, from layer `first` on.
struct further_layers {
    std::uint64_t first = 0, count = 0;
};
/// Reads them from the metadata in `view`; count is 0 if there are none.
further_layers find_further_layers(const storage::gguf_view& view, std::string_view architecture);

/// All tensors of `view` under published names, in its order, without those that only have rope's
/// factors. Names of further layers' tensors begin with "mtp.". Errors: incompatible, with the
/// tensor that is unknown in this architecture, or has a type that is not supported.
storage::result<std::vector<stored_tensor>> published_tensors(const storage::gguf_view& view,
                                                              std::string_view architecture,
                                                              const further_layers& further);

}  // namespace semantic::engine
