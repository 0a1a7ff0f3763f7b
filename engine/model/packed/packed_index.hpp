// SPDX-License-Identifier: Apache-2.0
#pragma once
// The index of the folder of packed weights, stored as JSON with a checksum (storage/FORMAT.md,
// Packed weights). If it is lost, hashes are computed again and packed files are checked as a whole
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

    /// Returns: null if the file is not in the index.
    const known_source* find_source(std::string_view path) const noexcept;
    const known_packed* find_packed(std::string_view name) const noexcept;
    /// Adds a source, or replaces the one with its path; removes the oldest one beyond sources_max.
    void keep(known_source source);
    /// Notes that a packed file is used now; removes the one used longest ago beyond packed_max.
    void use(std::string name, const storage::file_identity& identity);
    void forget_packed(std::string_view name);

    std::string to_text() const;
    /// Returns: the index; an empty one if the text is damaged or of another version.
    static packed_index parse(std::string_view text);
    bool operator==(const packed_index&) const = default;
};

}  // namespace semantic::engine
