// SPDX-License-Identifier: Apache-2.0
#pragma once
// Packed weights as a file: the bytes of model_weights' arena from offset 0 on, a table of
// checksums and a footer (storage/FORMAT.md, Packed weights). Written once, from the first byte to
// the last, and mapped from then on. Thread: a writer belongs to one thread at a time; a
// packed_file is immutable and safe from any. Everything here blocks.

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

/// Raised whenever a record of a packed matrix, or the order of matrices in the arena, changes.
constexpr std::uint32_t packed_layout_version = 1;
/// Bytes that one checksum guards.
constexpr std::size_t packed_piece_bytes = std::size_t{256} << 10;
/// Pieces that a start checks unless it checks all of them.
constexpr std::size_t packed_sample_pieces = 64;

/// What a packed file must say of itself to be used.
struct packed_contents {
    storage::block_hash weights;  // model_weights::hash()
    storage::block_hash plan;     // digest_of() of what is packed where
    std::uint64_t bytes = 0;      // of the arena
};

/// Of the file that holds so many bytes of an arena.
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
    std::vector<std::byte> pending_;   // whole write units but the last
    std::vector<std::uint64_t> sums_;  // XXH3-64 of each piece that was flushed
    std::uint64_t bytes_ = 0;
};

class packed_file {
  public:
    /// Maps the file and compares its length, its footer and its table with `contents`. Touches
    /// none of the arena's bytes. Errors: not_found, io, corrupt, incompatible; each names the
    /// path.
    static storage::result<packed_file> open(const std::string& path,
                                             const packed_contents& contents);
    packed_file(packed_file&& from) noexcept = default;
    packed_file& operator=(packed_file&& from) noexcept = default;

    std::span<const std::byte> bytes() const noexcept { return mapping_.bytes().first(bytes_); }
    /// Of the file that is mapped.
    const storage::file_identity& identity() const noexcept { return hold_.identity(); }
    /// Checks packed_sample_pieces, evenly spread, beginning with piece `phase` modulo their
    /// distance, so that starts with consecutive phases check all of them in the end. Errors:
    /// corrupt.
    storage::result<void> check_sample(std::uint64_t phase) const;
    /// Checks every piece, on the threads of the calling arena. Reads the whole file. Errors:
    /// corrupt.
    storage::result<void> check_all() const;
    /// Copies the arena's bytes to `copy`, which has room for bytes(), and checks all of the copy,
    /// on the threads of the calling arena. Errors: corrupt, io.
    storage::result<void> read_all(std::byte* copy) const;
    /// Returns: whether most of what is mapped in of the file, after check_sample(), lies on huge
    /// pages. Pages of 4 KiB cost a third of the bandwidth that weights are read with.
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
