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

    /// A piece with these layers is in its frames, and its checksums are right.
    void came(std::span<const int> layers);
    /// Something could not be read, or is not what was asked for.
    void failed();

    /// Says when a wait is to end although the layer is not there.
    class guard {
      public:
        virtual bool should_give_up() const = 0;

      protected:
        ~guard() = default;
    };

    enum class outcome {
        there,     // every frame of the layer
        failed,    // it never will be, as far as this prefix goes
        given_up,  // by who waited
    };
    /// Blocks until the layer is there. `waiter` is asked every few milliseconds.
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
