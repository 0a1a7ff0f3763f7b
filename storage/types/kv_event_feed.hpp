// SPDX-License-Identifier: Apache-2.0
#pragma once
// Publishes the full blocks that are written to this machine's disk and those that are removed from
// it, for routers that send a prompt to the machine that has its beginning. Without a subscriber an
// event costs one atomic load and is not made. Owner: the code that starts the engines, which all
// write to the same feed; it outlives them and every subscription. Thread: any.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "storage/types/ids.hpp"
#include "storage/types/subscription.hpp"

namespace semantic::storage {

/// Full blocks that follow each other in a text, all of them on disk.
struct blocks_stored {
    block_hash fingerprint{};  // of the model that can use them
    std::string model{};       // what clients call it
    tenant_id tenant{};        // whose prompts find them
    block_hash parent{};       // the block in front of the first; all zero where there is none
    std::vector<block_hash> names{};
    std::vector<token_id> tokens{};  // [names x block_tokens]
    int block_tokens = 0;
};

struct blocks_removed {
    std::vector<block_hash> names{};
};

/// Other models run than before: a follower forgets what it knows and asks for what is there.
struct models_changed {};

using kv_event = std::variant<blocks_stored, blocks_removed, models_changed>;

class kv_event_feed {
  public:
    using message = std::shared_ptr<const kv_event>;
    /// Takes one event. Called from any thread, under locks of the store; must not wait or call it.
    using receiver = std::function<void(message)>;

    /// The receiver is not called any more once its subscription is destroyed.
    using subscription = storage::subscription<kv_event_feed>;

    /// Subscribes `to` to all events from now on.
    subscription follow(receiver to);
    std::size_t followers() const noexcept { return followers_.load(); }

    /// Delivers the kv_event that `make()` returns to all followers; does not call it where there
    /// are none.
    template <class Make>
    void publish(Make&& make) {
        if (followers() > 0) deliver(std::forward<Make>(make)());
    }

  private:
    friend storage::subscription<kv_event_feed>;
    void deliver(kv_event event);
    void leave(std::uint64_t id);

    std::atomic<std::size_t> followers_{0};
    std::mutex mutex_;
    std::map<std::uint64_t, receiver> receivers_;  // guarded by mutex_
    std::uint64_t next_id_ = 1;                    // likewise
};

}  // namespace semantic::storage
