// SPDX-License-Identifier: Apache-2.0
#pragma once
// The progress of reading a prefix, layer by layer: a model may work on its first layers while the
// last ones are still on the disk. Owner: shared by the restore that reads and by the sequences
// that compute on the prefix's blocks meanwhile. Thread: any.

#include <condition_variable>
#include <mutex>
#include <span>
#include <vector>

namespace semantic::storage {

class prefix_arrival {
  public:
    /// `pieces`: for every layer of the model how many pieces of it are still to come.
    explicit prefix_arrival(std::vector<int> pieces) : to_come_(std::move(pieces)) {}

    /// Notes that a piece with these layers was read into its frames and its checksums are right.
    void came(std::span<const int> layers);
    /// Notes that a piece could not be read or is damaged: waiters give up.
    void failed();

    /// Asked by wait() whether to stop waiting although the layer is not there, as when a request
    /// was cancelled.
    class guard {
      public:
        virtual bool should_give_up() const = 0;

      protected:
        ~guard() = default;
    };

    enum class outcome {
        there,     // every frame of the layer
        failed,    // some piece could not be read, so this prefix is of no use
        given_up,  // the guard said so
    };
    /// Blocks until all pieces of the layer are there, some piece has failed, or `waiter`, which is
    /// asked every 2 ms, says to give up.
    outcome wait(int layer, const guard& waiter);
    /// Whether all layers are there. Does not wait.
    bool complete();

  private:
    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<int> to_come_;  // by layer
    bool failed_ = false;
};

}  // namespace semantic::storage
