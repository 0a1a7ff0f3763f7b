// SPDX-License-Identifier: Apache-2.0
#pragma once
// The operations of an asynchronous handler on its request's connection.
// Owner: the session. Thread: the connection's strand.

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>

#include <chrono>
#include <functional>
#include <optional>
#include <string>

namespace semantic::server {

class client_link {
  public:
    virtual ~client_link() = default;

    virtual boost::asio::any_io_executor executor() = 0;
    /// Sends `bytes` at once. Returns: false when the client is gone or did not take them in time;
    /// all later writes fail then.
    virtual boost::asio::awaitable<bool> write(std::string bytes) = 0;
    virtual bool is_gone() const = 0;
    /// Calls `notify` on the strand as soon as the client leaves, also while nothing is written; at
    /// once when it has left already.
    virtual void when_gone(std::function<void()> notify) = 0;
    /// How long an event stream may be silent.
    virtual std::chrono::milliseconds ping_every() const = 0;
    /// Whether the connection can serve another request after this one.
    virtual bool keep_alive() const = 0;
    /// Gives the connection to the caller, who speaks another protocol on it. Returns: nothing when
    /// the client has already sent more than a client of that protocol may.
    virtual boost::asio::awaitable<std::optional<boost::asio::ip::tcp::socket>> take_socket() = 0;
    /// Notes that the reply is written piece by piece with write(); the session then only counts
    /// it.
    virtual void streamed(int status) = 0;
};

}  // namespace semantic::server
