// SPDX-License-Identifier: Apache-2.0
#include "server/http/connection/connection.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>

#include <algorithm>

#include "server/runtime/deadline.hpp"

namespace semantic::server {

namespace {

const boost::system::error_code no_error;
constexpr std::string_view header_end = "\r\n\r\n";

}  // namespace

connection::connection(net::ip::tcp::socket socket, const http_limits& limits, task_group& tasks)
    : limits_(limits),
      tasks_(tasks),
      socket_(std::move(socket)),
      buffer_(limits.header_bytes_max + limits.pipelined_bytes_max),
      watch_ended_(socket_.get_executor()) {}

net::awaitable<bool> connection::write(std::string bytes) {
    if (is_gone()) co_return false;
    deadline limit(socket_, limits_.write);
    auto [error, written] = co_await net::async_write(socket_, net::buffer(bytes), use_tuple);
    if (error) mark_gone();
    co_return !error && written == bytes.size();
}

void connection::mark_gone() {
    gone_->store(true);
    keep_alive_ = false;
    if (auto notify = std::exchange(notify_, nullptr)) notify();
}

void connection::when_gone(std::function<void()> notify) {
    notify_ = std::move(notify);
    if (is_gone()) mark_gone();
}

bool connection::is_from_here() const {
    boost::system::error_code gone;
    const auto peer = socket_.remote_endpoint(gone);
    if (gone) return false;
    const net::ip::address address = peer.address();
    if (address.is_v6() && address.to_v6().is_v4_mapped())
        return net::ip::make_address_v4(net::ip::v4_mapped, address.to_v6()).is_loopback();
    return address.is_loopback();
}

void connection::begin_request(bool keep_alive) {
    keep_alive_ = keep_alive;
    streamed_status_ = 0;
    notify_ = nullptr;
    has_asked_ = true;
}

void connection::leave() {
    net::post(executor(), [self = shared_from_this()] {
        self->mark_gone();
        boost::system::error_code ignored;  // a socket that is already closed is what we want
        self->socket_.close(ignored);
    });
}

net::awaitable<bool> connection::wait_for_request() {
    if (buffer_.size() > 0) co_return true;
    deadline limit(socket_, has_asked_ ? limits_.idle : limits_.header);
    auto [error, count] = co_await socket_.async_read_some(buffer_.prepare(4096), use_tuple);
    buffer_.commit(count);
    co_return !error && count > 0;
}

std::string_view connection::read_ahead() const {
    const auto bytes = buffer_.cdata();
    return {static_cast<const char*>(bytes.data()), bytes.size()};
}

std::size_t connection::header_bytes() const {
    const std::size_t at = read_ahead().find(header_end);
    return at == std::string_view::npos ? at : at + header_end.size();
}

net::awaitable<boost::system::error_code> connection::read_header() {
    std::size_t searched = 0;
    for (;;) {
        const std::string_view bytes = read_ahead();
        const bool is_whole = bytes.find(header_end, searched) != std::string_view::npos;
        if (is_whole || bytes.size() >= limits_.header_bytes_max) co_return no_error;
        searched = bytes.size() - std::min(bytes.size(), header_end.size());
        auto [error, count] = co_await socket_.async_read_some(buffer_.prepare(4096), use_tuple);
        buffer_.commit(count);
        if (error) co_return error;
    }
}

void connection::start_watching() {
    watching_ = true;
    watch_no_more_ = false;
    tasks_.spawn(executor(), watch(shared_from_this()), "watching a client");
}

net::awaitable<void> connection::watch(std::shared_ptr<connection> self) {
    auto& buffer = self->buffer_;
    // When the buffer is full nothing is read; a client that leaves is then noticed at the next
    // write.
    while (!self->watch_no_more_ && buffer.size() < self->limits_.pipelined_bytes_max) {
        std::size_t room =
            std::min<std::size_t>(4096, self->limits_.pipelined_bytes_max - buffer.size());
        auto [error, count] = co_await self->socket_.async_read_some(
            buffer.prepare(room), net::bind_cancellation_slot(self->stop_watch_.slot(), use_tuple));
        buffer.commit(count);
        if (!error) continue;
        if (error != net::error::operation_aborted) self->mark_gone();
        break;
    }
    self->watching_ = false;
    self->watch_ended_.cancel();
}

net::awaitable<void> connection::stop_watching() {
    // The cancellation signal alone is not enough: it does not reach a read that has completed but
    // whose coroutine has not continued yet.
    watch_no_more_ = true;
    while (watching_) {
        stop_watch_.emit(net::cancellation_type::total);
        watch_ended_.expires_after(limits_.write);
        [[maybe_unused]] auto [error] = co_await watch_ended_.async_wait(use_tuple);
    }
}

net::awaitable<std::optional<net::ip::tcp::socket>> connection::take_socket() {
    co_await stop_watching();
    if (is_gone() || buffer_.size() > 0) co_return std::nullopt;
    keep_alive_ = false;
    co_return std::move(socket_);
}

net::awaitable<void> connection::close() {
    boost::system::error_code ignored;  // a socket that is already closed is what we want
    if (is_gone()) {
        socket_.close(ignored);
        co_return;
    }
    // What still comes is read and discarded: closing with unread bytes would reset the connection,
    // and the client could lose the reply.
    socket_.shutdown(net::ip::tcp::socket::shutdown_send, ignored);
    deadline limit(socket_, limits_.linger);
    std::size_t discarded = 0;
    while (discarded < limits_.linger_bytes_max) {
        buffer_.clear();
        std::size_t room = std::min<std::size_t>(buffer_.max_size(), 65536);
        auto [error, count] = co_await socket_.async_read_some(buffer_.prepare(room), use_tuple);
        if (error) break;
        discarded += count;
    }
    socket_.close(ignored);
}

}  // namespace semantic::server
