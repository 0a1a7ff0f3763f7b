// SPDX-License-Identifier: Apache-2.0
#pragma once
// One block on disk: up to block_tokens tokens as one safetensors file for the layers that see
// everything and a sibling for those that see a window, named by what they hold. Stateless. Thread:
// safe from any thread; writers of one name are serialised by the caller. Byte layout:
// storage/FORMAT.md.

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "storage/disk/block_format.hpp"
#include "storage/files/file.hpp"
#include "storage/pool/block_pool.hpp"
#include "storage/types/errc.hpp"

namespace semantic::storage {

/// Where a tensor's bytes are in a file, and what the file says of them.
struct tensor_source {
    std::uint64_t begin = 0;
    checksum_digits digits{};
};

/// Blocks. Writes the first identity.tokens.size() tokens of `block` to a file of exactly this path
/// and syncs its bytes; with them the wide tail (the f16 rows of the last group) where the block
/// has one that ends there. `block` is of the format's part. Returns: bytes written. Errors: io,
/// out_of_space.
result<std::uint64_t> write_block_file(file_system& files, const std::string& path,
                                       const block_identity& identity, const block_format& format,
                                       const kv_block& block);

/// A block file that is being read straight into frames of the pool, a few layers at a time. Nobody
/// may see the block before every piece is read. Thread: read() of different pieces may run at
/// once.
class block_file_reader {
  public:
    /// All tensors of some consecutive layers, large enough that reading them takes longer than
    /// starting the read.
    struct piece {
        std::size_t first = 0, end = 0;  // among the format's tensors
        std::vector<int> layers;         // ascending
    };

    /// Blocks. Checks all that a header can say and takes the frames. `expected` is looked at here
    /// only; `files`, `format` and the pool must live as long as the reader. Without `keep_open`
    /// every read() opens the file again. Errors: not_found, io, corrupt, incompatible (fingerprint
    /// or format version), pool_exhausted; each names the path.
    static result<block_file_reader> open(file_system& files, std::string path,
                                          const block_identity& expected,
                                          const block_format& format, block_pool& pool,
                                          bool keep_open = true);

    /// The pieces of the file, in the order of their layers.
    const std::vector<piece>& pieces() const noexcept { return pieces_; }
    /// Blocks. Reads a piece and compares its checksums. Errors: not_found, io, corrupt; each names
    /// the path.
    result<void> read(const piece& some) const;

    /// Returns: the block that is read. Its contents are right once every piece was read.
    std::shared_ptr<const kv_block> block() const noexcept { return block_; }
    std::uint64_t file_bytes() const noexcept { return file_bytes_; }

  private:
    block_file_reader(file_system& files, std::string path, const block_format& format,
                      std::size_t tokens)
        : files_(&files), path_(std::move(path)), format_(&format), tokens_(tokens) {}
    failure at_path(const failure& fault) const;
    void cut_into_pieces();
    result<void> read(readable_file& file, const piece& some) const;

    file_system* files_;
    std::string path_;
    const block_format* format_;
    // Of the block that the file holds, 1 to block_tokens.
    std::size_t tokens_;
    std::uint64_t file_bytes_ = 0;
    bool is_wide_ = false;                // it holds a wide tail
    std::vector<tensor_source> sources_;  // of each of its tensors
    std::vector<piece> pieces_;
    std::shared_ptr<readable_file> file_;  // null: opened for each piece
    std::shared_ptr<kv_block> block_;
};

struct block_read {
    std::shared_ptr<const kv_block> block;
    std::uint64_t bytes = 0;  // of the file
};

/// Blocks. Reads all of a file into a block of the pool. Errors: those of block_file_reader.
result<block_read> read_block_file(file_system& files, const std::string& path,
                                   const block_identity& expected, const block_format& format,
                                   block_pool& pool);

}  // namespace semantic::storage
