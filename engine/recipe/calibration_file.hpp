// SPDX-License-Identifier: Apache-2.0
#pragma once
// The result of a calibration, stored next to the cache, so that a model is measured once and not
// at every start: storage/FORMAT.md §10. A file that is not as expected is measured again.

#include <optional>
#include <string>

#include "engine/recipe/calibration.hpp"
#include "storage/files/file.hpp"
#include "storage/types/ids.hpp"

namespace semantic::engine {

/// Path of the result for a model whose weights have this hash.
std::string calibration_path(const std::string& cache_directory,
                             const storage::block_hash& weights);

/// Blocks. Returns: nothing where there is no file, or one of another version, of another set of
/// candidates, or damaged.
std::optional<calibration> read_calibration(storage::file_system& files, const std::string& path,
                                            const model_config& config,
                                            int block_tokens = usual_block_tokens);
/// Blocks. Makes the directory where it is missing. Errors: io, out_of_space.
storage::result<void> write_calibration(storage::file_system& files, const std::string& path,
                                        const calibration& result);

}  // namespace semantic::engine
