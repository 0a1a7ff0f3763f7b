// SPDX-License-Identifier: Apache-2.0
#pragma once
// The tensors of a GGUF under the names that published folders give them, so that one list of a
// model's tensors serves both. Stateless; thread: any.
// Source: llama.cpp's table of tensor names (gguf-py/gguf/constants.py, read 2026-11).

#include <cstdint>
#include <string_view>
#include <vector>

#include "engine/model/weights/weight_files.hpp"
#include "storage/files/gguf.hpp"
#include "storage/types/errc.hpp"

namespace semantic::engine {

/// The layers of a file that predict further tokens, which no answer needs: the last of them.
struct further_layers {
    std::uint64_t first = 0, count = 0;
};
/// `view`: the part of a file that has its metadata.
further_layers find_further_layers(const storage::gguf_view& view, std::string_view architecture);

/// All tensors of `view`, in its order; those that only say how rope is scaled are left out. Those
/// of further layers get names that begin with "mtp.".
/// Errors: incompatible, naming a tensor that this program has no use for in that architecture, or
/// whose type it does not read.
storage::result<std::vector<stored_tensor>> published_tensors(const storage::gguf_view& view,
                                                              std::string_view architecture,
                                                              const further_layers& further);

}  // namespace semantic::engine
