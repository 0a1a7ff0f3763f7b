// SPDX-License-Identifier: Apache-2.0
#pragma once
// Stores the result of a calibration in the cache directory, so that a model is measured once and
// not at every start (storage/FORMAT.md §10). If the file is not as expected the model is measured
// again.

#include <optional>
#include <string>

#include "engine/recipe/calibration.hpp"
#include "storage/files/file.hpp"
#include "storage/types/ids.hpp"

namespace semantic::engine {

/// The path of the file for a model whose weights have this hash.
std::string calibration_path(const std::string& cache_directory,
                             const storage::block_hash& weights);

/// Blocks. Returns: the stored result; nothing if there is no file, or it is damaged, of another
/// version, or of another set of candidates.
std::optional<calibration> read_calibration(storage::file_system& files, const std::string& path,
                                            const model_config& config,
                                            int block_tokens = usual_block_tokens);
/// Blocks. Writes the file, and makes its directory if it is missing. Errors: io, out_of_space.
storage::result<void> write_calibration(storage::file_system& files, const std::string& path,
                                        const calibration& result);

}  // namespace semantic::engine
