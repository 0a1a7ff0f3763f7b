// SPDX-License-Identifier: Apache-2.0
#pragma once
// The rows of one step: one row for each token of each sequence, sequence after sequence.
// Owner: transformer. Thread: lay_out(), move() and cut() are called by one thread at a time,
// inside the arena; reading needs no lock.

#include <span>
#include <vector>

#include "engine/kernels/task_runner.hpp"
#include "engine/model/config/model_config.hpp"
#include "engine/model/heads/rope.hpp"
#include "engine/model/heads/step_part.hpp"
#include "engine/model/pass/sequence_step.hpp"

namespace semantic::engine {

class pass_rows {
  public:
    /// `config` and `tasks` outlive it.
    pass_rows(const model_config& config, const task_runner& tasks, int rows_max);

    /// Makes the rows of a step, each with its sequence and position. Requires: at most rows_max
    /// tokens in all, positions inside the context, frames reserved.
    void lay_out(std::span<const sequence_step> batch);
    /// Copies row `from` to row `to`; cut() must follow.
    void move(int from, int to);
    /// Drops all rows but the first `count`.
    void cut(int count);

    int count() const noexcept { return count_; }
    int position(int row) const { return positions_[static_cast<std::size_t>(row)]; }
    const step_part& part(int row) const { return *parts_[static_cast<std::size_t>(row)]; }
    /// All sequences of the step, in order, also those whose rows were dropped.
    std::span<const step_part> sequences() const noexcept { return sequences_; }
    /// The rows of each sequence that were not dropped, with their absolute positions.
    std::span<const attention_span> spans() const noexcept { return spans_; }
    const rope_angles& angles() const noexcept { return angles_; }

  private:
    const model_config& config_;
    const task_runner& tasks_;
    const int rows_max_;
    int count_ = 0;                        // without those that cut() dropped
    std::vector<step_part> sequences_;     // never reallocated: parts_ points into it
    std::vector<const step_part*> parts_;  // [rows]
    std::vector<int> positions_;           // [rows]
    std::vector<attention_span> spans_;
    rope_angles angles_;
};

}  // namespace semantic::engine
