#pragma once
// A request that runs while its prefix is still being read. It is the only one that runs: who
// waited for the disk in the same step would lose its pace. Until every layer has come nobody is
// told of it, and nothing of it is published, so it can be taken back without a trace. Owner:
// sequence_set. Thread: confined to the step node; wait() blocks a thread of the compute arena.

#include <functional>
#include <memory>
#include <utility>

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
        there,      // it can be computed on
        last,       // likewise, and so can all others: the whole prefix was right
        not_there,  // it never comes, the request is to stop, or somebody else wants a step
    };
    /// Blocks until the layer has come. `step_wanted`: whether somebody waits for this step to end;
    /// asked every few milliseconds.
    layer wait(int index, const std::function<bool()>& step_wanted) const;

  private:
    sequence* run_;
    std::shared_ptr<storage::prefix_arrival> arrival_;
};

}  // namespace semantic::engine
