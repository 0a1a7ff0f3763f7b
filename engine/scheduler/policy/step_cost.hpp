// SPDX-License-Identifier: Apache-2.0
#pragma once
// Estimates the cost of steps on this machine from those that ran. Pure: no clock and no threads of
// its own, a function of its inputs. The estimate only decides how much work goes into a step, so
// it cannot change a result.

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
    /// A chunk shorter than this says nothing: reading the weights is most of its cost.
    static constexpr int chunk_tokens_min = 16;

    void learn(const step_sample& step);

    /// Seconds of a step that gives one token to each of `decoding` sequences and runs no chunk. 0
    /// until one ran.
    double decode_seconds(int decoding) const;
    /// Seconds that one token of a chunk at `position` adds to a step. Nothing until a chunk ran.
    std::optional<double> prefill_seconds(int position) const;

  private:
    // By size, in powers of two: 1, 2, 3-4, 5-8, ... sequences, and depths from 0, 1K, 3K, 7K, ...
    // A mean moves a quarter of the way to each new sample; 0: none yet.
    static constexpr std::size_t count_bands = 11;
    static constexpr std::size_t depth_bands = 9;
    std::array<double, count_bands> decode_{};
    std::array<double, depth_bands> prefill_{};  // a token
};

}  // namespace semantic::engine
