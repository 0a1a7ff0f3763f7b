// SPDX-License-Identifier: Apache-2.0
#pragma once
// One recurrent state on disk: a safetensors file named by the tokens before it. Stateless. Thread:
// safe from any thread; writers of one name are serialised by the caller. Byte layout:
// storage/FORMAT.md.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "storage/disk/block_format.hpp"
#include "storage/files/file.hpp"
#include "storage/pool/recurrent_state.hpp"
#include "storage/types/errc.hpp"

namespace semantic::storage {

/// Part of the fingerprint of models with recurrent state: files of another version are never taken
/// for ours.
constexpr int state_format_version = 1;

/// Returns: an upper bound of the size of a state's file. `tokens`: of its identity.
std::uint64_t state_file_bytes_max(std::size_t tokens, std::size_t state_bytes);

/// Blocks. Writes the state after the last of identity.tokens to a file of exactly this path and
/// syncs its bytes. Returns: bytes written. Errors: io, out_of_space.
result<std::uint64_t> write_state_file(file_system& files, const std::string& path,
                                       const block_identity& identity,
                                       std::span<const std::byte> state);

struct state_read {
    recurrent_ptr state;
    std::uint64_t bytes = 0;  // of the file
};

/// Blocks. Reads a state into memory of the pool; nobody sees it unless everything in the file is
/// right. Errors: not_found, io, corrupt, incompatible (fingerprint or format version),
/// pool_exhausted; each names the path.
result<state_read> read_state_file(file_system& files, const std::string& path,
                                   const block_identity& expected, block_pool& pool);

}  // namespace semantic::storage
