#pragma once
// The safetensors files of a model's folder.
// Owner: the loader, on its stack. Thread: any; files are read-only once open.

#include <string>
#include <vector>

#include "storage/files/safetensors.hpp"
#include "storage/types/errc.hpp"
#include "storage/types/ids.hpp"

namespace semantic::engine {

struct weight_file {
    std::string path;
    storage::safetensors_file file;
};

/// Blocks. Opens DIR/model.safetensors, else the shards that DIR/model.safetensors.index.json
/// names, else every DIR/*.safetensors. Errors: not_found, io, corrupt; each names the file.
storage::result<std::vector<weight_file>> open_weight_files(const std::string& directory);

/// Blocks. XXH3-128 over the XXH3-128 of every file, in the order given; `form`, unless empty,
/// joins in as a last entry. Reads the files in parallel and lets their pages go.
storage::block_hash hash_weight_files(const std::vector<weight_file>& files,
                                      const std::string& form);

}  // namespace semantic::engine
