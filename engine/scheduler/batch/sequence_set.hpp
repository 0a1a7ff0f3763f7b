// SPDX-License-Identifier: Apache-2.0
#pragma once
// The sequences of a batch: those that run, in the order in which they began, and those that were
// preempted and wait for room. One that runs alone may have begun before its prefix was read.
// Owner: batch. Thread: confined to the step node.

#include <cstddef>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "engine/scheduler/batch/early_start.hpp"
#include "engine/scheduler/batch/sequence.hpp"

namespace semantic::engine {

class sequence_set {
  public:
    const std::vector<std::unique_ptr<sequence>>& running() const { return running_; }
    const std::vector<std::unique_ptr<sequence>>& preempted() const { return preempted_; }
    bool empty() const { return running_.empty() && preempted_.empty(); }
    /// Whether any of the request's sequences runs.
    bool runs(const job_ptr& work) const;

    sequence& add(std::unique_ptr<sequence> run);

    /// Adds a sequence whose prefix is still being read. Requires: none runs.
    void add_early(std::unique_ptr<sequence> run, std::shared_ptr<storage::prefix_arrival> prefix);
    /// The start of the only sequence that runs, while its prefix is being read; null: none is.
    const early_start* early() const { return early_ ? &*early_ : nullptr; }
    bool is_early(const sequence& run) const { return early_ && &early_->run() == &run; }
    /// The whole prefix is there: the sequence is one like any other. Requires: early().
    void confirm_early() { early_.reset(); }
    /// Takes the sequence out as if it had never been. Returns: its request. Requires: early().
    job_ptr revoke_early();

    /// The running sequence whose request came last, its last choice. Requires: one runs.
    sequence& youngest_running() const;
    /// Takes its blocks from a running sequence, which keeps its tokens and waits.
    void preempt(sequence& run);
    /// The preempted sequence whose request came first, of those whose memory is not being read.
    /// Requires: there is one.
    sequence& oldest_preempted() const;
    /// The preempted sequence of a request whose memory is being read; null: none is.
    sequence* find_returning(const job_ptr& work) const;
    /// How many of the preempted ones have a place while their memory is read.
    std::size_t count_returning() const;
    void resume(sequence& run);

    /// Marks a sequence as over; it stays until remove_ended(), for the loops that are under way.
    void end(const sequence& run);
    bool has_ended(const sequence& run) const { return ended_.contains(&run); }
    void remove_ended();

  private:
    std::vector<std::unique_ptr<sequence>> running_;
    std::vector<std::unique_ptr<sequence>> preempted_;
    std::set<const sequence*> ended_;
    std::optional<early_start> early_;
};

}  // namespace semantic::engine
