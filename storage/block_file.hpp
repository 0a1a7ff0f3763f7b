#pragma once
// One block on disk: up to block_tokens tokens as one safetensors file for the layers that see
// everything and a sibling for those that see a window, named by what they hold. Stateless. Thread:
// safe from any thread; writers of one name are serialised by the caller. Byte layout:
// storage/FORMAT.md.

#include <cstdint>
#include <memory>
#include <string>

#include "storage/block_format.hpp"
#include "storage/block_pool.hpp"
#include "storage/file.hpp"
#include "storage/types/errc.hpp"

namespace semantic::storage {

/// Blocks. Writes the first identity.tokens.size() tokens of `block`, which is of the format's
/// part, to a file of exactly this path and syncs its bytes. Returns: bytes written. Errors: io,
/// out_of_space.
result<std::uint64_t> write_block_file(file_system& files, const std::string& path,
                                       const block_identity& identity, const block_format& format,
                                       const kv_block& block);

struct block_read {
    std::shared_ptr<const kv_block> block;
    std::uint64_t bytes = 0;
};

/// Blocks. Reads a file into frames of the pool, whose layout is the format's; nobody sees the
/// frames unless everything in it is as `expected`. Errors: not_found, io, corrupt, incompatible
/// (fingerprint or format version), pool_exhausted; each names the path.
result<block_read> read_block_file(file_system& files, const std::string& path,
                                   const block_identity& expected, const block_format& format,
                                   block_pool& pool);

}  // namespace semantic::storage
