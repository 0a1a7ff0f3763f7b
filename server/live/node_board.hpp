// SPDX-License-Identifier: Apache-2.0
#pragma once
// The servers on one object store, as far as they announce themselves through Redis
// (storage/objects/redis/node_news.hpp).

#include <chrono>
#include <string>

#include "protocol/live/nodes.hpp"
#include "server/http/services.hpp"

namespace semantic::server {

/// What this server announces to the others, every two seconds. Reading all agents takes time in
/// proportion to their number; so they are read again only after 50 times as long as that took.
/// Thread: one.
class own_node {
  public:
    /// The announcement as JSON.
    std::string text(const services& server);

  private:
    protocol::live::node_facts facts_;  // as of looked_, but for what is running
    std::chrono::steady_clock::time_point looked_{};
    std::chrono::steady_clock::duration took_{};
};

/// The servers as a JSON array, this one first; empty where there is no Redis.
std::string nodes_text(const services& server);

}  // namespace semantic::server
