#pragma once
// The servers on one object store, as far as they tell each other of themselves through Redis
// (storage/objects/redis/node_news.hpp).

#include <string>

#include "server/http/services.hpp"

namespace semantic::server {

/// What this server tells the others of itself. As much work as there are agents.
std::string own_node_text(const services& with);
/// A JSON array, this server first; empty where there is no Redis.
std::string nodes_text(const services& with);

}  // namespace semantic::server
