// SPDX-License-Identifier: Apache-2.0
#pragma once
// A WebSocket as what speaks over it sees it: text messages in and out. Hides Beast.
// Owner: what speaks over it. Thread: the connection's strand; one reads and one writes at a time.

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "server/http/limits.hpp"
#include "server/http/request.hpp"

namespace semantic::server {

class message_socket {
  public:
    virtual ~message_socket() = default;
    virtual boost::asio::any_io_executor executor() = 0;
    struct piece {
        std::string bytes;
        bool is_last = false;  // of its message
    };
    /// Reads up to `bytes_max` bytes of a message. `within`: the longest wait; nothing: as long as
    /// the client stays. Returns: nothing when the client is gone, took too long or broke a rule,
    /// such as the longest message (that of a body).
    virtual boost::asio::awaitable<std::optional<piece>> read(
        std::size_t bytes_max, std::optional<std::chrono::steady_clock::duration> within = {}) = 0;
    /// Sends one message. Returns: false when it could not be sent within limits.write.
    virtual boost::asio::awaitable<bool> write(std::string message) = 0;
    /// Closes at once. Pending reads and writes end as if the client had gone.
    virtual void leave() = 0;
};

/// Whether the request asks to become a WebSocket.
bool asks_for_socket(const request& incoming);
/// Answers the handshake. `limits` outlive the socket. Returns: the socket; null when the client
/// left meanwhile.
boost::asio::awaitable<std::shared_ptr<message_socket>> accept_socket(
    const http_limits& limits, const request& incoming, boost::asio::ip::tcp::socket socket);

}  // namespace semantic::server
