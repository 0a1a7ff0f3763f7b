// SPDX-License-Identifier: Apache-2.0
#pragma once
// Estimates how long a step takes on this machine, from the steps that ran. Pure: no clock and no
// threads of its own. The estimate only decides how much work goes into a step, so it cannot change
// an answer.

#include <array>
#include <optional>

namespace semantic::engine {

/// One step that ran.
struct step_sample {
    int decoding = 0;        // sequences that got one token
    int chunk_position = 0;  // of the chunk's first token
    int chunk_tokens = 0;    // 0: no chunk
    double seconds = 0;
};

class step_cost {
  public:
    /// Shorter chunks are not learned from: most of their time is reading the weights, which does
    /// not depend on their tokens.
    static constexpr int chunk_tokens_min = 16;
    /// Takes the measured time of one step into the estimates.
    void learn(const step_sample& step);

    /// Seconds of a step that gives one token to each of `decoding` sequences and runs no chunk. 0
    /// until one ran.
    double decode_seconds(int decoding) const;
    /// The same of one that runs `rows` tokens, some of them of drafts: a size that none had yet is
    /// taken to cost a quarter more for each doubling, so that few rows are tried before many.
    double rows_seconds(int rows) const;
    /// Seconds that one token of a chunk at `position` adds to a step. Nothing until a chunk ran.
    std::optional<double> prefill_seconds(int position) const;

  private:
    // Mean seconds in bands whose width doubles: of 1, 2-3, 4-7, ... sequences, and of positions
    // from 0, 1K, 3K, 7K, ... A mean moves a quarter of the way to each new sample; 0: none yet.
    static constexpr std::size_t count_bands = 11;
    static constexpr std::size_t depth_bands = 9;
    std::array<double, count_bands> decode_{};
    std::array<double, depth_bands> prefill_{};  // a token
};

}  // namespace semantic::engine
