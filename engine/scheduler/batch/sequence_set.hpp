// SPDX-License-Identifier: Apache-2.0
#pragma once
// The sequences of a batch: the running ones, in the order in which they began, and the preempted
// ones, which wait for frames. A sequence that runs alone may have started early, before its prefix
// was read. Owner: batch. Thread: confined to the step node.

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

    /// Adds a sequence that starts early: its prefix is still being read. Requires: none runs.
    void add_early(std::unique_ptr<sequence> run, std::shared_ptr<storage::prefix_arrival> prefix);
    /// The early start of the only running sequence; null if there is none.
    const early_start* early() const { return early_ ? &*early_ : nullptr; }
    bool is_early(const sequence& run) const { return early_ && &early_->run() == &run; }
    /// Makes the early start an ordinary sequence, because its whole prefix was read. Requires:
    /// early().
    void confirm_early() { early_.reset(); }
    /// Removes the sequence that started early. Returns: its request. Requires: early().
    job_ptr revoke_early();

    /// The running sequence whose request came last; of several choices the last. Requires: one
    /// runs.
    sequence& youngest_running() const;
    /// Moves a running sequence to the preempted ones: it loses its blocks and keeps its tokens.
    void preempt(sequence& run);
    /// The preempted sequence whose request came first, without those whose memory is being read.
    /// Requires: there is one.
    sequence& oldest_preempted() const;
    /// The request's preempted sequence whose memory is being read; null if there is none.
    sequence* find_returning(const job_ptr& work) const;
    /// How many preempted sequences have a batch slot again while their memory is being read.
    std::size_t count_returning() const;
    /// Moves a preempted sequence to the running ones.
    void resume(sequence& run);
    /// Marks a sequence as over. It is destroyed by remove_ended(), so that loops over running()
    /// may end sequences.
    void end(const sequence& run);
    bool has_ended(const sequence& run) const { return ended_.contains(&run); }
    void remove_ended();

  private:
    std::vector<std::unique_ptr<sequence>> running_;
    std::vector<std::unique_ptr<sequence>> preempted_;
    std::set<const sequence*> ended_;   // until remove_ended() destroys them
    std::optional<early_start> early_;  // until it is confirmed or ends
};

}  // namespace semantic::engine
