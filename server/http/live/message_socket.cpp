// SPDX-License-Identifier: Apache-2.0
#include "server/http/live/message_socket.hpp"

#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/websocket/rfc6455.hpp>
#include <boost/beast/websocket/stream.hpp>

#include <tuple>
#include <utility>

#include "server/http/live/upgrade.hpp"
#include "server/runtime/deadline.hpp"
#include "server/runtime/tokens.hpp"

namespace semantic::server {

namespace {

namespace websocket = boost::beast::websocket;
using tcp = net::ip::tcp;

class beast_socket final : public message_socket {
  public:
    beast_socket(const http_limits& limits, tcp::socket socket)
        : limits_(limits), stream_(std::move(socket)) {
        websocket::stream_base::timeout times{};
        times.handshake_timeout = limits.farewell;
        times.idle_timeout = socket_silence_max;
        times.keep_alive_pings = true;
        stream_.set_option(times);
        stream_.read_message_max(limits.body_bytes_max);
        stream_.text(true);
    }

    net::awaitable<bool> accept(const upgrade_request* upgrade) {
        auto [error] = co_await stream_.async_accept(*upgrade, use_tuple);
        co_return !error;
    }
    net::any_io_executor executor() override { return stream_.get_executor(); }
    net::awaitable<std::optional<piece>> read(
        std::size_t bytes_max, std::optional<std::chrono::steady_clock::duration> within) override {
        std::optional<deadline> limit;
        if (within) limit.emplace(stream_.next_layer(), *within);
        auto [error, count] = co_await stream_.async_read_some(buffer_, bytes_max, use_tuple);
        if (error) co_return std::nullopt;
        piece read{{static_cast<const char*>(buffer_.cdata().data()), count},
                   stream_.is_message_done()};
        buffer_.consume(count);
        co_return read;
    }
    net::awaitable<bool> write(std::string message) override {
        boost::system::error_code error;
        {
            deadline limit(stream_.next_layer(), limits_.write);
            std::tie(error, std::ignore) =
                co_await stream_.async_write(net::buffer(message), use_tuple);
        }
        if (error) leave();
        co_return !error;
    }
    void leave() override {
        boost::system::error_code ignored;  // a socket that is already closed is what we want
        stream_.next_layer().close(ignored);
    }

  private:
    const http_limits& limits_;
    websocket::stream<tcp::socket> stream_;
    boost::beast::flat_buffer buffer_;
};

}  // namespace

bool asks_for_socket(const request& incoming) { return websocket::is_upgrade(as_beast(incoming)); }

net::awaitable<std::shared_ptr<message_socket>> accept_socket(const http_limits& limits,
                                                              const request& incoming,
                                                              tcp::socket socket) {
    const upgrade_request upgrade = as_beast(incoming);
    const auto made = std::make_shared<beast_socket>(limits, std::move(socket));
    const bool is_open = co_await made->accept(&upgrade);
    if (!is_open) co_return nullptr;
    co_return made;
}

}  // namespace semantic::server
