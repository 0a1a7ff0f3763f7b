// SPDX-License-Identifier: Apache-2.0
#pragma once
// The index of a folder of packed weights, as JSON with a checksum (storage/FORMAT.md, Packed
// weights). What is lost with it is made again: hashes are computed, packed files are read whole
// once. Pure values.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "storage/files/file_identity.hpp"
#include "storage/types/ids.hpp"

namespace semantic::engine {

/// A weight file, mapped.
struct packed_source {
    std::string path;
    std::span<const std::byte> bytes;
};

/// A weight file whose hash is known.
struct known_source {
    std::string path;
    storage::file_identity identity;
    storage::block_hash sample;  // of some of its bytes
    storage::block_hash hash;    // XXH3-128 of all
    bool operator==(const known_source&) const = default;
};

/// A packed file as it was written, or as it was last read whole.
struct known_packed {
    std::string name;  // in the folder
    storage::file_identity identity;
    std::uint64_t used = 0;  // packed_index::uses at its last use
    bool operator==(const known_packed&) const = default;
};

struct packed_index {
    static constexpr std::size_t sources_max = 256;
    static constexpr std::size_t packed_max = 256;
    static constexpr std::size_t file_bytes_max = std::size_t{4} << 20;

    std::uint64_t uses = 0;  // of packed files so far
    std::vector<known_source> sources;
    std::vector<known_packed> packed;

    /// Returns: null where the file is not known.
    const known_source* find_source(std::string_view path) const noexcept;
    const known_packed* find_packed(std::string_view name) const noexcept;
    /// Adds it, or puts it in the place of the one of its path; the oldest goes beyond the bound.
    void keep(known_source source);
    /// The same of a packed file, which is used now.
    void use(std::string name, const storage::file_identity& identity);
    void forget_packed(std::string_view name);

    std::string to_text() const;
    /// Returns: an empty index where the text is of another version or damaged.
    static packed_index parse(std::string_view text);
    bool operator==(const packed_index&) const = default;
};

}  // namespace semantic::engine
