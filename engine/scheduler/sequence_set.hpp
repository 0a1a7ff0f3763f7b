#pragma once
// The sequences of a batch: those that run, in the order in which they began, and those that were
// preempted and wait for room. Owner: batch. Thread: confined to the step node.

#include <cstddef>
#include <memory>
#include <set>
#include <vector>

#include "engine/scheduler/sequence.hpp"

namespace semantic::engine {

class sequence_set {
  public:
    const std::vector<std::unique_ptr<sequence>>& running() const { return running_; }
    const std::vector<std::unique_ptr<sequence>>& preempted() const { return preempted_; }
    bool empty() const { return running_.empty() && preempted_.empty(); }
    /// Whether any of the request's sequences runs.
    bool runs(const job_ptr& work) const;

    sequence& add(std::unique_ptr<sequence> run);
    /// Takes a running sequence out as if it had never been.
    void remove(const sequence& run);

    /// The running sequence whose request came last, its last choice. Requires: one runs.
    sequence& youngest_running() const;
    /// Takes its blocks from a running sequence, which keeps its tokens and waits.
    void preempt(sequence& run);
    /// The preempted sequence whose request came first. Requires: there is one.
    sequence& oldest_preempted() const;
    void resume(sequence& run);

    /// Marks a sequence as over; it stays until remove_ended(), for the loops that are under way.
    void end(const sequence& run) { ended_.insert(&run); }
    bool has_ended(const sequence& run) const { return ended_.contains(&run); }
    void remove_ended();

  private:
    std::vector<std::unique_ptr<sequence>> running_;
    std::vector<std::unique_ptr<sequence>> preempted_;
    std::set<const sequence*> ended_;
};

}  // namespace semantic::engine
