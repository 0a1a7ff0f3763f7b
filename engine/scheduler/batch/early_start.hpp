// SPDX-License-Identifier: Apache-2.0
#pragma once
// An early start: a request that runs while its prefix is still being read from disk, so that
// restore and prefill overlap layer by layer. Only a request that runs alone starts early, because
// others in its step would wait for the disk, too. Until every layer has been read and checked its
// client gets no event and nothing of its memory is published, so that the start can be revoked
// without a trace. Owner: sequence_set. Thread: confined to the step node; wait() blocks a thread
// of the compute arena.

#include <memory>
#include <utility>

#include "engine/scheduler/batch/batch_outputs.hpp"
#include "engine/scheduler/batch/sequence.hpp"
#include "storage/pool/prefix_arrival.hpp"

namespace semantic::engine {

class early_start {
  public:
    /// `run`: the sequence, which outlives this object. `arrival`: says which layers of its prefix
    /// have been read.
    early_start(sequence& run, std::shared_ptr<storage::prefix_arrival> arrival)
        : run_(&run), arrival_(std::move(arrival)) {}

    const sequence& run() const { return *run_; }
    const job_ptr& work() const { return run_->work_ptr(); }
    bool wants_to_stop() const { return work()->wants_to_stop().has_value(); }

    enum class layer {
        there,      // the layer's blocks are in the pool
        last,       // the same, and those of all other layers, undamaged
        not_there,  // it cannot be read, the request is to stop, or another one wants a step
    };
    /// Blocks until the layer with this index has been read, or until the start is to be given up:
    /// every few milliseconds asks `outputs` whether another request waits for this step to end.
    layer wait(int index, const batch_outputs& outputs) const;

  private:
    sequence* run_;
    std::shared_ptr<storage::prefix_arrival> arrival_;
};

}  // namespace semantic::engine
