// SPDX-License-Identifier: Apache-2.0
#pragma once
// Matrices on their way from a file's pages into the form that the kernels read.
// Owner: the loader, on its stack. Thread: pack_all() uses the threads of the calling arena.

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

/// How a matrix lies in its tensor. Fused experts hold gate and up in turns: the matrix's row r is
/// row r * turns + turn of the tensor or, transposed, its column of that number. Where rope_dim is
/// not 0, heads are of that many rows, and the two rows of one that rope turns together, i and
/// i + rope_dim / 2 in the matrix, are neighbours in the tensor.
struct source_order {
    bool transposed = false;
    int turns = 1;
    int turn = 0;
    int rope_dim = 0;
};

/// The tensor's row that is the matrix's row `row`, apart from turns.
inline int source_row(const source_order& order, int row) {
    if (order.rope_dim == 0) return row;
    const int in_head = row % order.rope_dim, pairs = order.rope_dim / 2;
    return row - in_head + (in_head < pairs ? 2 * in_head : 2 * (in_head - pairs) + 1);
}

/// One matrix to pack, and where from.
struct packing {
    packed_matrix* to;
    std::string name;                     // of the tensor, for complaints; mxfp4: of the scales
    weight_kind kind = weight_kind::f32;  // of the source; where it is not to's, floats are
                                          // quantised and MLX words become f16
    scale_kind scales = scale_kind::f16;  // of a q8 or q4 source
    const weight_file* from[3] = {};      // per part
    std::span<const std::byte> parts[3] = {};  // float: the matrix; q8, q4: words, scales, biases;
                                               // mxfp4: blocks, scales
    std::size_t offset = 0;                    // in the arena
    source_order order = {};
    std::optional<storage::gguf_type> blocks =
        {};  // of the source; `kind` is to's, and parts[0] alone

    std::size_t source_bytes() const noexcept {
        return parts[0].size() + parts[1].size() + parts[2].size();
    }
};

/// Counts source bytes while they are packed, file by file, and reports every half per cent and
/// every file's end. Thread: add() may be called from any.
class read_counter {
  public:
    /// All of it must outlive the counter. `progress` may be empty; it is called one call at a
    /// time.
    read_counter(const std::vector<packing>& plans, const std::vector<weight_file>& files,
                 const weights_progress& progress, read_pace& pace);

    /// Says that these tiles of a matrix are packed. Throws what `progress` throws.
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
    double reported_ = 0.0;
};

/// Packs everything into the arena. Source pages are let go as soon as they are packed. Tasks of
/// about 1 MiB run in parallel, so several files are read at once. Throws what the counter's
/// progress throws.
/// Returns: nothing, or incompatible with the tensor and the value that cannot be held.
std::optional<storage::failure> pack_all(const kernel_table& kernels,
                                         const std::vector<packing>& plans, std::byte* arena,
                                         read_counter& counter);

/// Takes the next bytes of the arena.
using arena_writer = std::function<storage::result<void>(std::span<const std::byte>)>;
/// The same without an arena: its bytes go to `write`, from the first to the last, while the next
/// ones are packed; no more than a few windows of them are in memory. Requires: plans in ascending
/// order of their offsets. Returns: also what `write` fails with.
std::optional<storage::failure> pack_in_order(const kernel_table& kernels,
                                              const std::vector<packing>& plans,
                                              std::size_t arena_bytes, const arena_writer& write,
                                              read_counter& counter);

}  // namespace semantic::engine
