// SPDX-License-Identifier: Apache-2.0
#pragma once
// Responses in the background: asked for, read again while they are made, and stopped.

#include <boost/asio/awaitable.hpp>

#include <memory>
#include <optional>

#include "protocol/responses/request.hpp"
#include "server/http/client_link.hpp"
#include "server/http/request.hpp"
#include "server/http/response.hpp"
#include "server/http/services.hpp"
#include "server/responses/background_runs.hpp"

namespace semantic::server {

/// Begins a response in the background, which goes on when the client leaves. Returns: the queued
/// response, or its stream of events.
boost::asio::awaitable<std::optional<response>> answer_in_background(
    const services& server, const request& incoming, client_link& client,
    protocol::responses::response_request parsed);

/// Streams the run's events after number `after` until there are no more or the client leaves.
boost::asio::awaitable<std::optional<response>> stream_background(
    const request& incoming, client_link& client, std::shared_ptr<background_run> run,
    std::int64_t after);
/// Waits until the run has ended or the client has left.
boost::asio::awaitable<void> wait_for_end(client_link& client, std::shared_ptr<background_run> run);

}  // namespace semantic::server
