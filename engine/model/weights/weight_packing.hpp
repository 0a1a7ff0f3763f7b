// SPDX-License-Identifier: Apache-2.0
#pragma once
// Packs matrices from a file's pages into the form that the kernels read. Owner: the loader, on its
// stack. Thread: pack_all() uses the threads of the calling arena.

#include <cstddef>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/kernels/kernels.hpp"
#include "engine/model/weights/weight_files.hpp"
#include "engine/model/weights/weights.hpp"
#include "engine/types/load_progress.hpp"

namespace semantic::engine {

/// The order of a matrix's rows in its tensor. Fused experts have the rows of gate and up in turns:
/// row r of the matrix is row r * turns + turn of the tensor or, if transposed, that column. If
/// rope_dim is not 0, heads have so many rows, and the two rows that rope rotates together, i and i
/// + rope_dim / 2 of a head in the matrix, are neighbours in the tensor.
struct source_order {
    bool transposed = false;
    int turns = 1;
    int turn = 0;
    int rope_dim = 0;
};

/// The row of the tensor that is row `row` of the matrix, not counting turns.
inline int source_row(const source_order& order, int row) {
    if (order.rope_dim == 0) return row;
    const int in_head = row % order.rope_dim, pairs = order.rope_dim / 2;
    return row - in_head + (in_head < pairs ? 2 * in_head : 2 * (in_head - pairs) + 1);
}

/// One matrix to pack, and its source.
struct packing {
    packed_matrix* to;
    std::string name;                     // the tensor's, for error messages; mxfp4: of the scales
    weight_kind kind = weight_kind::f32;  // of the source; if it differs from `to`, floats are
                                          // quantised and MLX words become f16
    scale_kind scales = scale_kind::f16;  // of a q8 or q4 source
    const weight_file* from[3] = {};      // the file of each part
    std::span<const std::byte> parts[3] = {};  // float: the matrix; q8, q4: words, scales, biases;
                                               // mxfp4: blocks, scales
    std::size_t offset = 0;                    // in the arena, bytes
    source_order order = {};
    std::optional<storage::gguf_type> blocks =
        {};  // set if the source is GGUF blocks, in parts[0]; then `kind` is that of `to`

    std::size_t source_bytes() const noexcept {
        return parts[0].size() + parts[1].size() + parts[2].size();
    }
};

/// Counts the source bytes that were packed, file by file, and reports progress at every half per
/// cent and at the end of each file. Thread: add() may be called from any.
class read_counter {
  public:
    /// All arguments must outlive the counter. `progress` may be empty; it is called by one thread
    /// at a time.
    read_counter(const std::vector<packing>& plans, const std::vector<weight_file>& files,
                 const weights_progress& progress, read_pace& pace);

    /// Called when the tiles [tile_begin, tile_end) of a matrix are packed. Throws what `progress`
    /// throws.
    void add(const packing& plan, int tile_begin, int tile_end);

  private:
    double count(const packing& plan, int tile_begin, int tile_end,
                 std::vector<double>& sums) const;

    const weights_progress& progress_;
    read_pace& pace_;
    std::map<const weight_file*, std::size_t> index_;
    std::mutex mutex_;
    std::vector<double> all_, done_;  // source bytes, by file
    std::vector<file_progress> files_;
    double all_bytes_ = 0.0;
    double reported_ = 0.0;  // fraction of the latest report
};

/// Packs all plans into the arena. Source pages are released as soon as they are packed. Tasks of
/// about 1 MiB run in parallel, so several files are read at once. Throws what the counter's
/// progress throws. Returns: nothing; or the error incompatible, with the tensor and the value that
/// cannot be represented.
std::optional<storage::failure> pack_all(const kernel_table& kernels,
                                         const std::vector<packing>& plans, std::byte* arena,
                                         read_counter& counter);

/// Receives the next bytes of the arena.
using arena_writer = std::function<storage::result<void>(std::span<const std::byte>)>;
/// As pack_all(), but without an arena in memory: its bytes are passed to `write` in order, a
/// window at a time, while the next window is packed. Requires: plans in ascending order of
/// offsets. Returns: also the error of `write`.
std::optional<storage::failure> pack_in_order(const kernel_table& kernels,
                                              const std::vector<packing>& plans,
                                              std::size_t arena_bytes, const arena_writer& write,
                                              read_counter& counter);

}  // namespace semantic::engine
