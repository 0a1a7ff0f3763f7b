// SPDX-License-Identifier: Apache-2.0
#pragma once
// A file of packed weights: the bytes of model_weights' arena, a table of checksums and a footer
// (storage/FORMAT.md, Packed weights). It is written once, in order, and mapped from then on.
// Thread: a writer belongs to one thread at a time; a packed_file is immutable and safe from any.
// Everything here blocks.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "storage/files/file.hpp"
#include "storage/files/file_identity.hpp"
#include "storage/files/mapped_file.hpp"
#include "storage/types/errc.hpp"
#include "storage/types/ids.hpp"

namespace semantic::engine {

/// Raised when the format of packed matrices, or their order in the arena, changes.
constexpr std::uint32_t packed_layout_version = 1;
/// Bytes that one checksum covers (a "piece").
constexpr std::size_t packed_piece_bytes = std::size_t{256} << 10;
/// Pieces that a start checks, unless it checks all.
constexpr std::size_t packed_sample_pieces = 64;

/// The identity of a packed file's contents: it is used only if its footer has just these.
struct packed_contents {
    storage::block_hash weights;  // model_weights::hash()
    storage::block_hash plan;     // tensor_reader::digest()
    std::uint64_t bytes = 0;      // of the arena
};

/// The size of a packed file for an arena of so many bytes.
std::uint64_t packed_file_bytes(std::uint64_t arena_bytes) noexcept;

class packed_writer {
  public:
    explicit packed_writer(std::unique_ptr<storage::writable_file> file);

    /// Appends the next bytes of the arena. Errors: io, out_of_space.
    storage::result<void> write(std::span<const std::byte> bytes);
    /// Appends the table and the footer, and syncs. Requires: contents.bytes were written. Errors:
    /// as write().
    storage::result<void> finish(const packed_contents& contents);

  private:
    storage::result<void> flush();

    std::unique_ptr<storage::writable_file> file_;
    std::vector<std::byte> pending_;   // bytes not written yet, less than a write unit
    std::vector<std::uint64_t> sums_;  // XXH3-64 of each piece that was written
    std::uint64_t bytes_ = 0;
};

class packed_file {
  public:
    /// Maps the file and checks its length, footer and table against `contents`, without reading
    /// the weights. Errors: not_found, io, corrupt, incompatible; each names the path.
    static storage::result<packed_file> open(const std::string& path,
                                             const packed_contents& contents);
    packed_file(packed_file&& from) noexcept = default;
    packed_file& operator=(packed_file&& from) noexcept = default;

    std::span<const std::byte> bytes() const noexcept { return mapping_.bytes().first(bytes_); }
    /// The identity (device, inode, size, times) of the mapped file.
    const storage::file_identity& identity() const noexcept { return hold_.identity(); }
    /// Checks the checksums of packed_sample_pieces evenly spread pieces, from piece `phase` modulo
    /// their distance on: starts with consecutive phases check all pieces in the end. Errors:
    /// corrupt.
    storage::result<void> check_sample(std::uint64_t phase) const;
    /// Checks every piece, on the threads of the calling arena. Reads the whole file. Errors:
    /// corrupt.
    storage::result<void> check_all() const;
    /// Copies all weights to `copy`, of bytes().size() bytes, and checks the whole copy, on the
    /// threads of the calling arena. Errors: corrupt, io.
    storage::result<void> read_all(std::byte* copy) const;
    /// Returns: whether most of the file's pages that are in memory, after check_sample(), are huge
    /// pages. With pages of 4 KiB weights are read with a third less bandwidth.
    bool is_on_huge_pages() const;

  private:
    packed_file(storage::mapped_file mapping, storage::held_file hold, std::string path,
                std::uint64_t bytes, std::vector<std::uint64_t> sums);
    storage::result<void> check_piece(const std::byte* arena, std::size_t piece) const;

    storage::mapped_file mapping_;
    storage::held_file hold_;
    std::string path_;
    std::uint64_t bytes_ = 0;  // of the arena
    std::vector<std::uint64_t> sums_;
};

}  // namespace semantic::engine
