// SPDX-License-Identifier: Apache-2.0
#pragma once
// /v1/coordination: a tenant's sessions of several agents. Another tenant's session is none.
// Cancelled half-way (server stop): the engine request is cancelled, nothing more is sent.

#include <boost/asio/awaitable.hpp>

#include <optional>

#include "server/http/client_link.hpp"
#include "server/http/request.hpp"
#include "server/http/response.hpp"
#include "server/http/services.hpp"

namespace semantic::server {

struct answer_context;
struct session_client;

/// On whose behalf a session's agents answer: the client of this request.
session_client client_of(const answer_context& context);

/// The status of each of the tenant's sessions, as GET /v1/coordination/sessions/{id} replies.
std::vector<std::string> session_statuses(const services& server, const storage::tenant_id& tenant);

using awaited_reply = boost::asio::awaitable<std::optional<response>>;
awaited_reply get_sessions(const services& server, const request& incoming, client_link& client);
response get_session(const services& server, const request& incoming);
/// `?agent_id=` adds the whispers that this agent may see.
awaited_reply get_session_messages(const services& server, const request& incoming,
                                   client_link& client);
awaited_reply get_session_votes(const services& server, const request& incoming,
                                client_link& client);
awaited_reply post_sessions(const services& server, const request& incoming, client_link& client);
awaited_reply delete_session(const services& server, const request& incoming, client_link& client);
awaited_reply post_session_turn(const services& server, const request& incoming,
                                client_link& client);
awaited_reply post_session_turn_stream(const services& server, const request& incoming,
                                       client_link& client);
awaited_reply post_session_round(const services& server, const request& incoming,
                                 client_link& client);
awaited_reply post_session_round_stream(const services& server, const request& incoming,
                                        client_link& client);
awaited_reply post_session_whisper(const services& server, const request& incoming,
                                   client_link& client);
awaited_reply post_session_vote(const services& server, const request& incoming,
                                client_link& client);
awaited_reply post_session_decision(const services& server, const request& incoming,
                                    client_link& client);
/// Forgets the memories of permanent agents under this prefix.
awaited_reply delete_prefix_caches(const services& server, const request& incoming,
                                   client_link& client);

}  // namespace semantic::server
