#pragma once
// One block on disk: up to block_tokens tokens as one safetensors file for the layers that see
// everything and a sibling for those that see a window, named by what they hold. Stateless. Thread:
// safe from any thread; writers of one name are serialised by the caller. Byte layout:
// storage/FORMAT.md.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "storage/block_pool.hpp"
#include "storage/file.hpp"
#include "storage/safetensors.hpp"
#include "storage/types/errc.hpp"
#include "storage/types/ids.hpp"

namespace semantic::storage {

/// Part of the fingerprint: files of another version are never taken for ours.
constexpr int block_format_version = 2;

/// One tensor of a file with KV, and where its rows lie in a frame. The rows of one head lie side
/// by side there, block_tokens of them, then those of the next head.
struct tensor_plan {
    std::string name;
    dtype type{};
    int layer = 0;
    int heads = 0;
    std::size_t at = 0;           // frame offset of head 0, token 0
    std::size_t row_bytes = 0;    // of one token of one head
    std::size_t row_element = 0;  // elements of one row
};

/// Every tensor of one part, in file order.
std::vector<tensor_plan> plan_tensors(const kv_layout& layout, kv_part part);

/// What a block is: KV of `tokens` behind the block `parent`, for one model and one tenant.
struct block_identity {
    block_hash fingerprint;
    std::string_view tenant_salt;
    block_hash parent;                 // name of the block before it; all zero for the first
    std::span<const token_id> tokens;  // 1 to block_tokens
};

/// The block's name: XXH3-128 over fingerprint, salt, parent and token ids (little-endian), each
/// behind its length.
block_hash block_name(const block_identity& block);

/// The names of all blocks that hold `tokens`, in order; the last may be partly filled.
std::vector<block_hash> block_names(const block_hash& fingerprint, std::string_view tenant_salt,
                                    std::span<const token_id> tokens, int block_tokens);

/// Path of a part's file under the cache directory: "blocks/ab/ab….safetensors", and for the
/// sliding layers "blocks/ab/ab….sliding.safetensors".
std::string block_path(const block_hash& name, kv_part part);
/// The block and part that a file of such a name is of. Errors: bad_value.
result<std::pair<block_hash, kv_part>> parse_block_file_name(std::string_view file_name);
/// The fan-out directory that both files lie in: "blocks/ab".
std::string block_directory(const block_hash& name);

/// Returns: an upper bound of the size of a part's file with `tokens` tokens.
std::uint64_t block_file_bytes_max(const kv_layout& layout, kv_part part, std::size_t tokens);

/// Blocks. Writes the first identity.tokens.size() tokens of `block`, one part of a block, to a
/// file of exactly this path and syncs its bytes. Returns: bytes written. Errors: io, out_of_space.
result<std::uint64_t> write_block_file(file_system& files, const std::string& path,
                                       const block_identity& identity, const kv_layout& layout,
                                       const kv_block& block);

struct block_read {
    std::shared_ptr<const kv_block> block;
    std::uint64_t bytes = 0;
};

/// Blocks. Reads a file of one part into frames of the pool; nobody sees the frames unless
/// everything in it is as `expected`. Errors: not_found, io, corrupt, incompatible (fingerprint or
/// format version), pool_exhausted; each names the path.
result<block_read> read_block_file(file_system& files, const std::string& path,
                                   const block_identity& expected, kv_part part, block_pool& pool);

}  // namespace semantic::storage
