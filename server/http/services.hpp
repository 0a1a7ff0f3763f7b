// SPDX-License-Identifier: Apache-2.0
#pragma once
// The parts of the server that sessions and handlers may use.
// Owner: app. Everything referred to outlives every connection and is safe to use from any thread.

#include <boost/asio/any_io_executor.hpp>

#include <atomic>
#include <span>
#include <string>

#include "server/config/config.hpp"
#include "server/engines/engine_slots.hpp"
#include "server/http/body_budget.hpp"
#include "server/http/limits.hpp"
#include "server/http/router.hpp"
#include "server/models/known_models.hpp"
#include "server/models/model_queue.hpp"
#include "server/models/model_switches.hpp"
#include "server/runtime/default_seed.hpp"
#include "server/runtime/metrics.hpp"
#include "server/runtime/token_stream.hpp"
#include "server/runtime/turns_in_flight.hpp"

namespace semantic::storage {
class node_news;
}

namespace semantic::server {

class key_accounts;
class kv_followers;
class live_hub;
class socket_checks;
class response_registry;
class run_registry;
class session_registry;
class tenant_workers;
struct shared_slots;

struct services {
    const config& settings;
    const http_limits& limits;
    std::span<const route> routes;
    engine_slots& engines;  // those that serve
    known_models& models;
    model_switches& switcher;
    model_queue* queue;  // null: without auto-swap, requests never wait for a model
    server_probe& probe;
    const std::atomic<bool>& stopping;  // SIGTERM was received: no new work
    // For work of more than a millisecond that is no engine request, and that no tenant asks for;
    // else see choose_workers().
    boost::asio::any_io_executor workers;
    tenant_workers& short_jobs;
    tenant_workers& long_jobs;
    tenant_workers& large_jobs;  // of a tenant's one at a time: they take memory
    tenant_workers& transfers;   // for agents' files, which wait for their client
    shared_slots& slots;
    socket_checks& sockets;
    turns_in_flight& turns;
    waking_streams& waking;              // answers that the engine's last step gave something to
    const std::string& spool_directory;  // where an upload lies until it is checked
    default_seed& seed;
    body_budget& bodies;
    body_budget& replies;  // long ones of what is kept, which a client may read slowly
    session_registry& sessions;
    run_registry& runs;
    response_registry& responses;
    live_hub& live;
    kv_followers& kv;
    key_accounts& accounts;
    const storage::node_news* news;  // null: no other servers are heard
};

}  // namespace semantic::server
