// SPDX-License-Identifier: Apache-2.0
#pragma once
// A request that runs while its prefix is still being read: restore and prefill overlap layer by
// layer. Only a request that runs alone starts early, since others in its steps would wait for the
// disk with it. Until every layer has come its client gets no event and nothing of its memory is
// published, so that the start can be revoked without a trace. Owner: sequence_set. Thread:
// confined to the step node; wait() blocks a thread of the compute arena.

#include <memory>
#include <utility>

#include "engine/scheduler/batch/batch_outputs.hpp"
#include "engine/scheduler/batch/sequence.hpp"
#include "storage/pool/prefix_arrival.hpp"

namespace semantic::engine {

class early_start {
  public:
    /// `run`: the sequence, which stays at its place until this ends.
    early_start(sequence& run, std::shared_ptr<storage::prefix_arrival> arrival)
        : run_(&run), arrival_(std::move(arrival)) {}

    const sequence& run() const { return *run_; }
    const job_ptr& work() const { return run_->work_ptr(); }
    bool wants_to_stop() const { return work()->wants_to_stop().has_value(); }

    enum class layer {
        there,      // the layer can be computed on
        last,       // likewise, and so can all others: the whole prefix was right
        not_there,  // the layer never comes, the request is to stop, or another wants a step
    };
    /// Blocks until the layer has come. `outputs` is asked every few milliseconds whether another
    /// request waits for this step to end.
    layer wait(int index, const batch_outputs& outputs) const;

  private:
    sequence* run_;
    std::shared_ptr<storage::prefix_arrival> arrival_;
};

}  // namespace semantic::engine
