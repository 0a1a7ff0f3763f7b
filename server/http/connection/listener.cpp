// SPDX-License-Identifier: Apache-2.0
#include "server/http/connection/listener.hpp"

#include <boost/asio/post.hpp>

#include <stdexcept>

#include "server/http/connection/session.hpp"
#include "server/http/shared_slots.hpp"
#include "server/runtime/logging.hpp"
#include "server/runtime/tokens.hpp"

namespace semantic::server {

namespace {

using net::ip::tcp;

/// The address to listen on for a host name or address. Throws std::runtime_error.
net::ip::address find_address(net::io_context& context, const std::string& host,
                              std::uint16_t port) {
    boost::system::error_code error;
    net::ip::address address = net::ip::make_address(host, error);
    if (!error) return address;
    tcp::resolver resolver(context);
    auto found = resolver.resolve(host, std::to_string(port), tcp::resolver::passive, error);
    if (error || found.empty())
        throw std::runtime_error("cannot listen on host " + host + ": " +
                                 (error ? error.message() : "it has no address"));
    return found.begin()->endpoint().address();
}

}  // namespace

listener::listener(net::io_context& context, const services& server, task_group& sessions)
    : context_(context),
      server_(server),
      sessions_(sessions),
      strand_(net::make_strand(context)),
      acceptor_(strand_),
      room_(strand_),
      slots_(server.settings.max_connections,
             shared_slots::share(server.settings.max_connections, needs_key(server.settings))) {}

void listener::open(const std::string& host, std::uint16_t port) {
    tcp::endpoint endpoint(find_address(context_, host, port), port);
    boost::system::error_code error;
    acceptor_.open(endpoint.protocol(), error);
    // Without it a restart would have to wait for old connections to time out.
    if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor_.bind(endpoint, error);
    if (!error) acceptor_.listen(tcp::acceptor::max_listen_connections, error);
    if (error)
        throw std::runtime_error("cannot listen on " + host + ":" + std::to_string(port) + ": " +
                                 error.message());
}

std::uint16_t listener::port() const { return acceptor_.local_endpoint().port(); }

net::awaitable<void> listener::wait_for_room() {
    while (acceptor_.is_open() && !slots_.has_room()) {
        if (slots_.has_silent()) {
            // Wait for a client first: without one no connection has to leave.
            [[maybe_unused]] auto [error] =
                co_await acceptor_.async_wait(tcp::acceptor::wait_read, use_tuple);
            if (!acceptor_.is_open() || slots_.has_room()) continue;
            slots_.evict_oldest_silent();
        }
        room_.expires_at(std::chrono::steady_clock::time_point::max());
        [[maybe_unused]] auto [error] = co_await room_.async_wait(use_tuple);
    }
}

net::awaitable<void> listener::run() {
    while (acceptor_.is_open()) {
        co_await wait_for_room();
        auto [error, socket] =
            co_await acceptor_.async_accept(net::make_strand(context_), use_tuple);
        if (!acceptor_.is_open()) break;
        if (error) {
            // Out of descriptors, or the client gave up between connect and accept. Neither may end
            // the server.
            log_event(log_level::warning, "accept failed: " + error.message());
            net::steady_timer pause(strand_, std::chrono::milliseconds(100));
            [[maybe_unused]] auto [ignored] = co_await pause.async_wait(use_tuple);
            continue;
        }
        boost::system::error_code not_set;  // only latency is lost if it fails
        socket.set_option(tcp::no_delay(true), not_set);
        net::any_io_executor executor = socket.get_executor();
        auto slot = std::make_unique<connection_slots::holder>(slots_);
        sessions_.spawn(
            executor,
            run_session(tcp::socket(std::move(socket)), &server_, &sessions_, std::move(slot)),
            "a connection", [this] { net::post(strand_, [this] { room_.cancel(); }); });
    }
}

void listener::stop() {
    net::post(strand_, [this] {
        boost::system::error_code ignored;  // closing a closed acceptor is fine
        acceptor_.close(ignored);
        room_.cancel();
    });
}

}  // namespace semantic::server
