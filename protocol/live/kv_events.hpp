// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which KV blocks a server has on disk, for a router that follows: events of the shape that
// vLLM gives its own (vllm/distributed/kv_events.py: KVEventBatch), as JSON. Pure.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "storage/types/kv_event_feed.hpp"

namespace semantic::protocol::live {

/// One follower's messages, each
/// {"seq","ts","snapshot","events":[{"type":"AllBlocksCleared"}
///   | {"type":"BlockStored","block_hashes":[hex],"parent_block_hash":hex|null,"token_ids":[…],
///      "block_size","lora_id":null,"medium":"DISK","model","fingerprint","tenant"}
///   | {"type":"BlockRemoved","block_hashes":[hex],"medium":"DISK"}]}
/// `seq` rises by one, `ts` is seconds since 1970. A block is said to be stored once until it is
/// said to be removed, and removed only after it was said to be stored.
class kv_event_stream {
  public:
    static constexpr std::size_t blocks_max = 64;             // of an event
    static constexpr std::size_t message_bytes = 256 * 1024;  // about; one event may be longer

    /// The first message to a follower: it forgets what it knew of this server. `now`: seconds
    /// since 1970.
    std::string cleared(double now);
    /// Returns: messages with the blocks that exist when a follower connects; possibly none, or
    /// several.
    std::vector<std::string> snapshot(std::span<const storage::blocks_stored> stored, double now);
    /// Returns: the message after those, by which a follower knows that it has all of them.
    std::string snapshot_over(double now);
    /// Returns: messages with the events since then; possibly none, or several.
    std::vector<std::string> changes(std::span<const storage::kv_event_feed::message> events,
                                     double now);

  private:
    void add(const storage::blocks_stored& stored);
    void add(const storage::blocks_removed& removed);
    void add(const storage::models_changed&) {}  // followers start over
    void add_part(const storage::blocks_stored& stored, std::size_t begin, std::size_t end);
    void add_event(const std::string& event);
    std::string finish(double now, bool is_snapshot);

    std::uint64_t seq_ = 0;
    // The blocks that the follower has been sent and not seen removed.
    std::unordered_set<storage::block_hash> known_;
    std::string open_;                 // events of the message that is being made
    std::vector<std::string> bodies_;  // of the messages before it
};

}  // namespace semantic::protocol::live
