// SPDX-License-Identifier: Apache-2.0
#pragma once
// The listening socket: accepts clients, gives each its own strand, and never holds more than the
// configured number. Owner: app. Thread: open() before the I/O threads run; run() and stop() on the
// listener's strand.

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>

#include <cstdint>
#include <string>

#include "server/http/connection/connection_slots.hpp"
#include "server/http/services.hpp"
#include "server/runtime/task_group.hpp"

namespace semantic::server {

class listener {
  public:
    /// `server` and `sessions` outlive the listener.
    listener(boost::asio::io_context& context, const services& server, task_group& sessions);

    /// Begins to listen. Port 0: the system picks one. Throws std::runtime_error with one sentence:
    /// "cannot listen on 127.0.0.1:8001: Address already in use".
    void open(const std::string& host, std::uint16_t port);
    /// The port that open() got.
    std::uint16_t port() const;

    /// Accepts until stop(). While every slot is taken by a connection that has asked, clients
    /// wait in the kernel's queue.
    boost::asio::awaitable<void> run();
    /// From any thread. No connection is accepted afterwards; the port is free again.
    void stop();
    boost::asio::any_io_executor executor() { return strand_; }

  private:
    using strand = boost::asio::strand<boost::asio::io_context::executor_type>;
    /// Waits until one more connection may come; evicts a silent one when a client is waiting.
    boost::asio::awaitable<void> wait_for_room();

    boost::asio::io_context& context_;
    const services& server_;
    task_group& sessions_;
    strand strand_;
    boost::asio::ip::tcp::acceptor acceptor_;
    boost::asio::steady_timer room_;
    connection_slots slots_;
};

}  // namespace semantic::server
