// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a block file is, without I/O: the names of blocks and files, the tensors of a part, and the
// header before them. Pure values; safe to share between threads. Byte layout: storage/FORMAT.md.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "storage/files/checksum.hpp"
#include "storage/files/safetensors.hpp"
#include "storage/pool/kv_layout.hpp"
#include "storage/types/errc.hpp"
#include "storage/types/ids.hpp"

namespace semantic::storage {

/// Part of the fingerprint: files of another version are never taken for ours.
constexpr int block_format_version = 2;

class kv_block;

/// One tensor of a file with KV, and where its rows lie: in a frame, or in a wide tail. The rows of
/// one head lie side by side there, as many as there is room for, then those of the next head.
struct tensor_plan {
    enum class place { frame, wide_keys, wide_values };
    std::string name;
    dtype type{};
    int layer = 0;
    int heads = 0;
    std::size_t at = 0;           // frame offset of head 0, token 0
    std::size_t row_bytes = 0;    // of one token of one head
    std::size_t row_element = 0;  // elements of one row
    std::size_t room = 0;         // rows of a head: block_tokens, or the wide tail's
    place location = place::frame;

    /// Returns: how many tokens of a block with `tokens` tokens have a row in this tensor: all of
    /// them in a frame; in a wide tail those of the last group, which has begun and is not
    /// complete.
    std::size_t rows(std::size_t tokens) const {
        return location == place::frame ? tokens : tokens % room;
    }
    std::size_t bytes(std::size_t tokens) const {
        return static_cast<std::size_t>(heads) * rows(tokens) * row_bytes;
    }
    std::vector<std::int64_t> shape(std::size_t tokens) const;
    /// Returns: the first row of head 0 in the block. The pointer is writable for readers of files,
    /// which own the block; rows of a block that others share must not be written. Requires: the
    /// block has a wide tail, where this tensor is one of it.
    std::byte* rows_in(const kv_block& block) const;
    /// The key of a tensor's checksum in a file's metadata.
    std::string checksum_key() const { return "xxh3_64." + name; }
};

/// Returns: every tensor of one part, in the order of the file; `wide`: with those of a wide tail.
std::vector<tensor_plan> plan_tensors(const kv_layout& layout, kv_part part, bool wide = false);

/// Identifies a block: KV of `tokens` after the block `parent`, for one model and one tenant.
struct block_identity {
    block_hash fingerprint;
    std::string_view tenant_salt;
    block_hash parent;                 // name of the block before it; all zero for the first
    std::span<const token_id> tokens;  // 1 to block_tokens
};

/// The block's name: XXH3-128 over fingerprint, salt, parent and token ids (little-endian), each
/// after its length.
block_hash block_name(const block_identity& block);

/// Returns: the name of the recurrent state after the tokens of a block: XXH3-128 over the same
/// fields and the word "state". So a state and its block are stored and deleted independently.
block_hash state_name(const block_identity& block);

/// The names of all blocks that hold `tokens`, in order; the last may be partly filled.
std::vector<block_hash> block_names(const block_hash& fingerprint, std::string_view tenant_salt,
                                    std::span<const token_id> tokens, int block_tokens);

/// The kinds of files: a block's, with one name for both, and a recurrent state's.
inline constexpr std::array block_file_parts{kv_part::full, kv_part::sliding, kv_part::state};

/// Path of a part's file under the cache directory: "blocks/ab/ab….safetensors", for the sliding
/// layers "blocks/ab/ab….sliding.safetensors", for a state "blocks/ab/ab….state.safetensors".
std::string block_path(const block_hash& name, kv_part part);
/// Returns: the block and the part that a file of this name belongs to. Errors: bad_value.
result<std::pair<block_hash, kv_part>> parse_block_file_name(std::string_view file_name);
/// Returns: the folder of a block's files, named by the first two hex digits of its name:
/// "blocks/ab".
std::string block_directory(const block_hash& name);

/// The metadata that say which block a file holds, in the order of their keys, which all come
/// before those of the checksums.
std::array<std::pair<const char*, std::string>, 8> identity_fields(const block_identity& identity,
                                                                   kv_part part);

/// Compares the identity in a file's metadata with the expected one. Errors: incompatible for
/// another format, version or fingerprint; corrupt for anything else.
result<void> check_identity(const safetensors_index& index, const block_identity& expected,
                            kv_part part);

/// What the files of one part of a model's blocks have in common. Immutable.
class block_format {
  public:
    block_format(const kv_layout& layout, kv_part part);

    const kv_layout& layout() const noexcept { return layout_; }
    kv_part part() const noexcept { return part_; }
    /// Returns: the tensors of a file, in its order. `wide`: of a file that also has a wide tail,
    /// which is possible where the block ends inside a group.
    const std::vector<tensor_plan>& tensors(bool wide = false) const noexcept {
        return lists_[wide ? 1 : 0].plans;
    }
    /// Whether a block with `tokens` tokens ends inside a group, so that its file may have a wide
    /// tail.
    bool may_be_wide(std::size_t tokens) const {
        const int count = static_cast<int>(tokens);
        return layout_.group_start(count) < count;
    }

    /// Returns: an upper bound of the size of a file with `tokens` tokens.
    std::uint64_t file_bytes_max(std::size_t tokens) const;

    /// All bytes of a file before its first tensor. The identity of the block and the geometry
    /// determine every byte but the digits of the checksums.
    struct header {
        std::string bytes;
        std::vector<std::size_t> digits;  // where those of each tensor start, as tensors() has them
        std::uint64_t data_bytes = 0;     // of the tensors after the header
    };
    /// Returns: the header with zeros for checksums. Requires: 1 to block_tokens tokens.
    /// With a wide tail: may_be_wide().
    header header_of(const block_identity& identity, bool wide = false) const;

  private:
    struct tensor_list {
        std::vector<tensor_plan> plans;
        std::vector<std::size_t> by_name;  // indices of plans, in the order of their names
    };
    static tensor_list list_of(const kv_layout& layout, kv_part part, bool wide);
    static header ending(const tensor_list& list, std::size_t tokens);

    kv_layout layout_;
    kv_part part_;
    std::array<tensor_list, 2> lists_;  // without and with a wide tail
    header full_;                       // ending() of a full block
};

}  // namespace semantic::storage
