// SPDX-License-Identifier: Apache-2.0
#pragma once
// The opening handshake of every WebSocket of this server. Included by the sources of WebSockets
// alone: it drags Beast in.

#include <boost/beast/http/message.hpp>
#include <boost/beast/http/string_body.hpp>

#include <chrono>

#include "server/http/request.hpp"

namespace semantic::server {

using upgrade_request = boost::beast::http::request<boost::beast::http::string_body>;

// Proxies close what is silent for a minute. A client that is silent for half of this is pinged;
// one that does not answer is gone.
inline constexpr std::chrono::seconds socket_silence_max{50};

/// The request in the form that Beast's handshake takes.
inline upgrade_request as_beast(const request& incoming) {
    upgrade_request made;
    made.method(boost::beast::http::verb::get);
    made.target(incoming.target);
    made.version(incoming.http_1_0 ? 10 : 11);
    for (const auto& [name, value] : incoming.fields) made.insert(name, value);
    return made;
}

}  // namespace semantic::server
