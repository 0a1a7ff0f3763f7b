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

/// The agent as it is shown.
protocol::agents::agent_card card_of(const engine::agent_info& info);

response get_agent(const services& server, const request& incoming);

using awaited_reply = boost::asio::awaitable<std::optional<response>>;
awaited_reply get_agents(const services& server, const request& incoming, client_link& client);
awaited_reply get_agent_stats(const services& server, const request& incoming, client_link& client);

awaited_reply post_agents(const services& server, const request& incoming, client_link& client);
/// Changes how long the agent's memory is kept, brings it into RAM, or gives it up.
awaited_reply post_agent(const services& server, const request& incoming, client_link& client);
/// `?evict_only=true` moves the agent to disk instead; `?model=NAME` forgets what that model
/// remembers of it.
awaited_reply delete_agent(const services& server, const request& incoming, client_link& client);
awaited_reply post_agent_generate(const services& server, const request& incoming,
                                  client_link& client);
awaited_reply post_agent_fork(const services& server, const request& incoming, client_link& client);
awaited_reply post_agent_evict(const services& server, const request& incoming,
                               client_link& client);
awaited_reply get_agent_cache(const services& server, const request& incoming, client_link& client);
awaited_reply put_agent_cache(const services& server, const request& incoming, client_link& client);

}  // namespace semantic::server
