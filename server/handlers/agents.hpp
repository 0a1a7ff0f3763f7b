// SPDX-License-Identifier: Apache-2.0
#pragma once
// /v1/agents: a tenant's agents, created, shown, asked, forked, moved to disk, forgotten,
// and their memory as a file. Another tenant's agent is none.
// Cancelled half-way (server stop): the engine request is cancelled, nothing more is sent.

#include <boost/asio/awaitable.hpp>

#include <optional>

#include "engine/engine.hpp"
#include "protocol/agents/agents.hpp"
#include "server/http/client_link.hpp"
#include "server/http/request.hpp"
#include "server/http/response.hpp"
#include "server/http/services.hpp"

namespace semantic::server {

/// What clients are shown of an agent.
protocol::agents::agent_card card_of(const engine::agent_info& info);

/// GET /v1/agents/{id}: one agent.
response get_agent(const services& server, const request& incoming);

using awaited_reply = boost::asio::awaitable<std::optional<response>>;
/// GET /v1/agents: the tenant's agents, page by page.
awaited_reply get_agents(const services& server, const request& incoming, client_link& client);
/// GET /v1/agents/stats: what the tenant's agents take of pool and disk.
awaited_reply get_agent_stats(const services& server, const request& incoming, client_link& client);

/// POST /v1/agents: creates an empty agent.
awaited_reply post_agents(const services& server, const request& incoming, client_link& client);
/// POST /v1/agents/{id}: changes how long the agent's memory is kept, brings it into RAM, or
/// forgets it.
awaited_reply post_agent(const services& server, const request& incoming, client_link& client);
/// DELETE /v1/agents/{id}: forgets the agent and its branches. `?evict_only=true` moves it to disk
/// instead; `?model=NAME` forgets only what that model remembers of it.
awaited_reply delete_agent(const services& server, const request& incoming, client_link& client);
/// POST /v1/agents/{id}/generate: continues the agent's memory from raw text, without a chat
/// template.
awaited_reply post_agent_generate(const services& server, const request& incoming,
                                  client_link& client);
/// POST /v1/agents/{id}/fork: creates an agent that begins with this one's memory, or a part of it.
awaited_reply post_agent_fork(const services& server, const request& incoming, client_link& client);
/// POST /v1/agents/{id}/evict: moves the agent's memory from RAM to disk.
awaited_reply post_agent_evict(const services& server, const request& incoming,
                               client_link& client);
/// GET /v1/agents/{id}/cache: sends the agent's memory as a file.
awaited_reply get_agent_cache(const services& server, const request& incoming, client_link& client);
/// PUT /v1/agents/{id}/cache: replaces the agent's memory by that of a file.
awaited_reply put_agent_cache(const services& server, const request& incoming, client_link& client);

}  // namespace semantic::server
