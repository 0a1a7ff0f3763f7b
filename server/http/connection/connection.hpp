// SPDX-License-Identifier: Apache-2.0
#pragma once
// The socket of one client with its buffer: deadlines on every wait, one writer, and an eye on the
// client while an answer is made. Owner: the session. Thread: the connection's strand. Included by
// session.cpp and connection.cpp only: it drags Beast in.

#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>

#include <atomic>
#include <memory>
#include <string_view>

#include "server/http/client_link.hpp"
#include "server/http/limits.hpp"
#include "server/runtime/task_group.hpp"
#include "server/runtime/tokens.hpp"

namespace semantic::server {

class connection final : public client_link, public std::enable_shared_from_this<connection> {
  public:
    connection(net::ip::tcp::socket socket, const http_limits& limits, task_group& tasks);

    net::ip::tcp::socket& socket() { return socket_; }
    boost::beast::flat_buffer& buffer() { return buffer_; }

    net::any_io_executor executor() override { return socket_.get_executor(); }
    net::awaitable<bool> write(std::string bytes) override;
    bool is_gone() const override { return gone_->load(); }
    void when_gone(std::function<void()> notify) override;
    std::chrono::milliseconds ping_every() const override { return limits_.ping_every; }
    bool keep_alive() const override { return keep_alive_; }
    net::awaitable<std::optional<net::ip::tcp::socket>> take_socket() override;
    void streamed(int status) override { streamed_status_ = status; }

    /// is_gone() for other threads.
    std::shared_ptr<const std::atomic<bool>> gone() const { return gone_; }
    /// Whether the client, or the proxy in front of it, is on this machine.
    bool is_from_here() const;
    /// Resets what belongs to one request. `keep_alive`: what the client asks for.
    void begin_request(bool keep_alive);
    /// Closes the connection at once. Any thread.
    void leave();
    /// The connection serves no request after this one.
    void end_keep_alive() { keep_alive_ = false; }
    /// The status of a streamed reply; 0: none was begun.
    int streamed_status() const { return streamed_status_; }

    /// Waits for the first byte of a request. Returns: false when the client left or stayed silent
    /// for too long.
    net::awaitable<bool> wait_for_request();
    /// Reads until the buffer holds a whole header, or as many bytes as one may have.
    net::awaitable<boost::system::error_code> read_header();
    /// The size of the header at the front of the buffer; the largest number when its end has not
    /// come.
    std::size_t header_bytes() const;
    /// The content of the buffer. Valid until it changes.
    std::string_view read_ahead() const;
    /// Reads what the client sends next while a reply is made, because only a read notices that a
    /// client leaves.
    void start_watching();
    /// Ends start_watching(). Bytes that were read stay in the buffer for the next request.
    net::awaitable<void> stop_watching();
    /// Closes after reading what the client still sends, for a while: closing a socket with unread
    /// input would make the client lose the last reply.
    net::awaitable<void> close();

  private:
    /// Reads ahead until stop_watching() or the client leaves.
    static net::awaitable<void> watch(std::shared_ptr<connection> self);
    /// Notes that the client has left, and notifies who asked for that.
    void mark_gone();

    const http_limits& limits_;
    task_group& tasks_;
    net::ip::tcp::socket socket_;
    boost::beast::flat_buffer buffer_;
    net::cancellation_signal stop_watch_;
    net::steady_timer watch_ended_;
    // watch() runs; `watch_no_more_`: it is to end.
    bool watching_ = false;
    bool watch_no_more_ = false;
    /// Set on the strand, and looked at by the workers.
    const std::shared_ptr<std::atomic<bool>> gone_ = std::make_shared<std::atomic<bool>>(false);
    bool keep_alive_ = true;
    // A request has come: between two, limits_.idle counts and not limits_.header.
    bool has_asked_ = false;
    // 0: no part of a reply was streamed for the present request.
    int streamed_status_ = 0;
    std::function<void()> notify_;
};

}  // namespace semantic::server
