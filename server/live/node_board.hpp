// SPDX-License-Identifier: Apache-2.0
#pragma once
// The servers on one object store, as far as they announce themselves through Redis
// (storage/objects/redis/node_news.hpp).

#include <chrono>
#include <string>

#include "protocol/live/nodes.hpp"
#include "server/http/services.hpp"

namespace semantic::server {

/// What this server announces to the others, every two seconds. Looking at all agents is as much
/// work as there are, and is done so seldom that it takes a fiftieth of the time. Thread: one.
class own_node {
  public:
    std::string text(const services& server);

  private:
    protocol::live::node_facts facts_;  // as of looked_, but for what is running
    std::chrono::steady_clock::time_point looked_{};
    std::chrono::steady_clock::duration took_{};
};

/// A JSON array, this server first; empty where there is no Redis.
std::string nodes_text(const services& server);

}  // namespace semantic::server
