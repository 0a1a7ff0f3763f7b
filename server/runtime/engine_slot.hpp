#pragma once
// The engine once it is there, and what is known while it is not.
// Owner: app. Thread: any; the loader writes, connections read.

#include <atomic>
#include <memory>
#include <mutex>

#include "engine/engine.hpp"

namespace semantic::server {

class engine_slot {
  public:
    /// Returns: null while the model loads.
    engine::engine* get() const noexcept { return published_.load(std::memory_order_acquire); }

    void report(engine::load_progress progress) {
        std::lock_guard lock(mutex_);
        progress_ = std::move(progress);
    }
    engine::load_progress progress() const {
        std::lock_guard lock(mutex_);
        return progress_;
    }

    /// Requires: empty. The engine stays until the slot is destroyed.
    void publish(std::unique_ptr<engine::engine> loaded) {
        owned_ = std::move(loaded);
        published_.store(owned_.get(), std::memory_order_release);
    }

  private:
    mutable std::mutex mutex_;
    engine::load_progress progress_{"starting", 0.0};
    std::unique_ptr<engine::engine> owned_;
    std::atomic<engine::engine*> published_{nullptr};
};

}  // namespace semantic::server
