// SPDX-License-Identifier: Apache-2.0
#pragma once
// Packs GGUF's quantised tensors for the kernels: the same integers and scales in another order, so
// that no weight changes. Stateless; thread: any, and different tiles of one matrix may be packed
// by different threads.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "engine/kernels/kernels.hpp"
#include "storage/files/gguf.hpp"

namespace semantic::engine {

/// The packed kind that holds the weights of a quantised type unchanged. Nothing for floats (see
/// pack_float), for types that are not supported, and if `cols` is not a multiple of a record's
/// inputs: such a matrix has to be packed as floats.
std::optional<weight_kind> packed_kind(storage::gguf_type type, int cols) noexcept;

/// A row-major matrix of quantised blocks.
struct block_source {
    storage::gguf_type type{};
    const std::byte* blocks = nullptr;
    std::size_t row_bytes = 0;  // from one row to the next
    /// Packed row r is row row_of[r] of the source; empty: row r.
    std::span<const std::int32_t> row_of = {};
};

/// Packs the tiles [tile_begin, tile_end) of a matrix. `out`: the start of the whole packed matrix,
/// of to.bytes() bytes; `to.data` is not used. Requires: to.kind == *packed_kind(type, cols).
/// Returns: nothing; or where the source has a scale that is infinite or NaN, which would spoil all
/// logits, as "a scale that is not a number (row 5, inputs 0 to 255)".
std::optional<std::string> pack_blocks(const packed_matrix& to, const block_source& source,
                                       int tile_begin, int tile_end, std::byte* out);

}  // namespace semantic::engine
