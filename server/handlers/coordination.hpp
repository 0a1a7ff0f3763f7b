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

/// The client of this request, as session_driver wants it.
session_client client_of(const answer_context& context);

/// The status of each of the tenant's sessions, as JSON like the reply of GET
/// /v1/coordination/sessions/{id}.
std::vector<std::string> session_statuses(const services& server, const storage::tenant_id& tenant);

using awaited_reply = boost::asio::awaitable<std::optional<response>>;
/// GET /v1/coordination/sessions: all sessions of the tenant.
awaited_reply get_sessions(const services& server, const request& incoming, client_link& client);
/// GET /v1/coordination/sessions/{id}: one session without its lines.
response get_session(const services& server, const request& incoming);
/// GET .../{id}/messages: the lines of a session. `?agent_id=` adds the whispers that this agent
/// may see.
awaited_reply get_session_messages(const services& server, const request& incoming,
                                   client_link& client);
/// GET .../{id}/votes: the questions of a session and their votes.
awaited_reply get_session_votes(const services& server, const request& incoming,
                                client_link& client);
/// POST /v1/coordination/sessions: opens a session.
awaited_reply post_sessions(const services& server, const request& incoming, client_link& client);
/// DELETE .../{id}: deletes a session and the memories of its temporary agents.
awaited_reply delete_session(const services& server, const request& incoming, client_link& client);
/// POST .../{id}/turn: has the next agent speak.
awaited_reply post_session_turn(const services& server, const request& incoming,
                                client_link& client);
/// POST .../{id}/turn/stream: the same as events.
awaited_reply post_session_turn_stream(const services& server, const request& incoming,
                                       client_link& client);
/// POST .../{id}/round: takes all turns that are left of the round.
awaited_reply post_session_round(const services& server, const request& incoming,
                                 client_link& client);
/// POST .../{id}/round/stream: the same as events.
awaited_reply post_session_round_stream(const services& server, const request& incoming,
                                        client_link& client);
/// POST .../{id}/whisper: adds a line that only some agents see.
awaited_reply post_session_whisper(const services& server, const request& incoming,
                                   client_link& client);
/// POST .../{id}/vote: adds a vote that the client casts for an agent.
awaited_reply post_session_vote(const services& server, const request& incoming,
                                client_link& client);
/// POST .../{id}/decision: has the agents vote on a question.
awaited_reply post_session_decision(const services& server, const request& incoming,
                                    client_link& client);
/// DELETE /v1/coordination/caches/{prefix}: forgets the memories of permanent agents under this
/// prefix.
awaited_reply delete_prefix_caches(const services& server, const request& incoming,
                                   client_link& client);

}  // namespace semantic::server
