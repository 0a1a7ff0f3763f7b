// SPDX-License-Identifier: Apache-2.0
#include "server/http/live/live_socket.hpp"

#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/websocket/rfc6455.hpp>
#include <boost/beast/websocket/stream.hpp>

#include <algorithm>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>

#include "protocol/live/dialogue.hpp"
#include "server/http/cors.hpp"
#include "server/http/hosts.hpp"
#include "server/http/live/upgrade.hpp"
#include "server/http/middleware.hpp"
#include "server/http/shared_slots.hpp"
#include "server/live/live_hub.hpp"
#include "server/live/socket_checks.hpp"
#include "server/runtime/tokens.hpp"
#include "server/workers/tenant_workers.hpp"

namespace semantic::server {

namespace {

namespace http = boost::beast::http;
namespace live = protocol::live;
namespace websocket = boost::beast::websocket;
using clock = std::chrono::steady_clock;
using protocol::errc;
using tcp = net::ip::tcp;

bool offers_subprotocol(const request& incoming) {
    const std::string offered = incoming.field("sec-websocket-protocol").value_or("");
    for (const auto& each : http::token_list(offered))
        if (std::string_view(each.data(), each.size()) == live::subprotocol) return true;
    return false;
}

using watcher_slot = std::unique_ptr<tenant_slots::slot>;

/// A copy of the request with only the fields that show a key.
request keys_of(const request& incoming) {
    request shown;
    for (const char* name : {"x-api-key", "authorization"})
        if (auto value = incoming.field(name)) shown.fields.emplace_back(name, std::move(*value));
    return shown;
}

/// Asks a socket to leave, also one that does not exist yet: then as soon as it is attached.
/// Thread: any.
class eviction {
  public:
    void ask() {
        std::lock_guard lock(mutex_);
        is_asked_ = true;
        if (evict_) evict_();
    }
    /// `evict`: asks the socket to leave. It must not block.
    void attach(std::function<void()> evict) {
        std::lock_guard lock(mutex_);
        evict_ = std::move(evict);
        if (is_asked_) evict_();
    }

  private:
    std::mutex mutex_;
    std::function<void()> evict_;
    bool is_asked_ = false;
};

/// One watcher. Thread: its connection's strand. Owner: the coroutines and callbacks that wait for
/// it share it.
class live_socket : public std::enable_shared_from_this<live_socket> {
  public:
    live_socket(const services& server, const request& incoming, tcp::socket socket,
                watcher_slot slot)
        : server_(server),
          slot_(std::move(slot)),
          shown_(keys_of(incoming)),
          credential_(incoming.credential),
          is_from_here_(is_asked_from_here(incoming)),
          stream_(std::move(socket)),
          greeting_(stream_.get_executor()),
          farewell_(stream_.get_executor()) {}

    /// Accepts the WebSocket and reads messages until the client is gone.
    net::awaitable<void> run(const upgrade_request* upgrade);
    /// A function that asks the client to leave, for one that has shown no key yet. Any thread may
    /// call it.
    std::function<void()> evict();

  private:
    /// Sets the time limits and bounds of the WebSocket.
    void set_options();
    /// Does what the dialogue decided: sends, checks a key, subscribes, closes.
    void follow(live::answer reply);
    /// What a client with this credential may see. The other servers on the object store are shown
    /// only to people at this machine where there are no keys; else to the admin alone.
    viewer viewer_of(const std::string& credential) const {
        return {false, credential, credential.empty() && is_from_here_};
    }
    /// Checks the key that the client has shown, and replies.
    void judge(const live::shown_keys& keys);
    bool take_slot(const std::string& tenant);
    bool still_may();
    /// Subscribes to the hub: a snapshot comes, then changes.
    void watch();
    /// Queues a message of the hub; null: the server stops. A client that is too slow is asked to
    /// connect again.
    void take(live_hub::message message);
    void queue(live_hub::message message);
    /// Sends what is queued and then the close, within limits.farewell.
    void end(live::close_code why);
    /// Writes the first queued message, and then the others.
    void write_next();
    void close();
    /// Closes the connection at once.
    void hang_up();
    net::awaitable<void> read();

    const services& server_;
    watcher_slot slot_;
    request shown_;                          // the key, as it was shown
    std::optional<std::string> credential_;  // absent: not known yet
    const bool is_from_here_;                // as far as the handshake says
    websocket::stream<tcp::socket> stream_;
    // Ends the wait for a first message; `farewell_`: hangs up where the close takes too long.
    net::steady_timer greeting_;
    net::steady_timer farewell_;
    live::dialogue dialogue_;
    viewer viewer_;
    live_hub::subscription watching_;
    socket_checks::subscription checked_;
    int turn_ = 0;  // number of the subscription; messages of an earlier one are dropped
    std::deque<live_hub::message> queue_;
    std::optional<live::close_code> ending_;  // set: nothing more is taken or queued
    bool is_writing_ = false;
};

void live_socket::set_options() {
    websocket::stream_base::timeout limits{};
    limits.handshake_timeout = server_.limits.farewell;
    limits.idle_timeout = socket_silence_max;
    limits.keep_alive_pings = true;
    stream_.set_option(limits);
    stream_.set_option(websocket::stream_base::decorator([](websocket::response_type& reply) {
        reply.set(http::field::sec_websocket_protocol,
                  boost::beast::string_view(live::subprotocol.data(), live::subprotocol.size()));
    }));
    stream_.read_message_max(live::message_bytes_max);
    stream_.auto_fragment(false);  // a message is one frame, uncopied, in one system call
    stream_.text(true);
}

net::awaitable<void> live_socket::run(const upgrade_request* upgrade) {
    set_options();
    auto [error] = co_await stream_.async_accept(*upgrade, use_tuple);
    if (error) co_return;
    greeting_.expires_after(live::greeting_time);
    greeting_.async_wait([self = shared_from_this()](boost::system::error_code cancelled) {
        if (!cancelled) self->follow(self->dialogue_.waited());
    });
    viewer_ = viewer_of(credential_.value_or(""));
    checked_ = server_.sockets.follow([weak = weak_from_this(), home = stream_.get_executor()] {
        net::post(home, [weak] {
            if (const auto self = weak.lock()) self->still_may();
        });
    });
    follow(dialogue_.opened(credential_.has_value(), clock::now()));
    co_await read();
    checked_ = {};
    slot_ = nullptr;
    watching_ = {};
    ++turn_;
    greeting_.cancel();
    farewell_.cancel();
    hang_up();
}

net::awaitable<void> live_socket::read() {
    boost::beast::flat_buffer buffer;
    for (;;) {
        auto [error, count] = co_await stream_.async_read(buffer, use_tuple);
        if (error) co_return;  // to a message that is too long Beast has replied with a close
        const auto bytes = buffer.cdata();
        const std::string_view text(static_cast<const char*>(bytes.data()), count);
        if (!ending_ && still_may())
            follow(stream_.got_text() ? dialogue_.said(text, clock::now())
                                      : dialogue_.said_binary());
        buffer.consume(count);
    }
}

void live_socket::follow(live::answer reply) {
    if (!reply.send.empty()) queue(std::make_shared<const std::string>(std::move(reply.send)));
    if (reply.judge) judge(*reply.judge);
    if (reply.wants_snapshot) watch();
    if (reply.close) end(*reply.close);
}

void live_socket::judge(const live::shown_keys& keys) {
    // Nothing is shown under the old keys while the new ones are judged.
    watching_ = {};
    if (keys.admin_key) {
        if (!is_admin_key(server_.settings, *keys.admin_key))
            return follow(dialogue_.refused("Invalid admin key"));
        if (!take_slot("admin")) return;
        viewer_ = {true, {}, true};
        return follow(dialogue_.welcomed(true));
    }
    shown_ = {};
    if (keys.api_key) shown_.fields = {{"x-api-key", *keys.api_key}};
    credential_ = credential_of(server_.settings, shown_);
    if (!credential_) return follow(dialogue_.refused("this is no valid key"));
    if (!take_slot(*credential_)) return;
    viewer_ = viewer_of(*credential_);
    follow(dialogue_.welcomed(false));
}

/// Takes a slot of the tenant in place of the present one, which could be evicted. Returns: false
/// when there is none; the client then gets an error.
bool live_socket::take_slot(const std::string& tenant) {
    slot_ = nullptr;
    slot_ = server_.slots.watchers.take(tenant);
    if (slot_) return true;
    queue(std::make_shared<const std::string>(
        live::error_message("overloaded", "as many watch this server as may, of this key or all")));
    end(live::close_code::try_again);
    return false;
}

/// Whether the client's key is still valid: it may have been removed from the key file. If not, the
/// client gets an error.
bool live_socket::still_may() {
    if (ending_) return false;
    if (viewer_.is_admin || !credential_) return true;
    if (credential_of(server_.settings, shown_) == credential_) return true;
    follow(dialogue_.refused("this key is none any more"));
    return false;
}

std::function<void()> live_socket::evict() {
    return [weak = weak_from_this(), home = stream_.get_executor()] {
        net::post(home, [weak] {
            if (const auto self = weak.lock()) self->end(live::close_code::try_again);
        });
    };
}

void live_socket::watch() {
    greeting_.cancel();
    watching_ = {};
    const net::any_io_executor home = stream_.get_executor();
    auto to = [weak = weak_from_this(), home, turn = ++turn_](live_hub::message message) {
        net::post(home, [weak, turn, message = std::move(message)] {
            auto self = weak.lock();
            if (self && self->turn_ == turn) self->take(message);
        });
    };
    // On a worker, because the snapshot reads all agents.
    auto subscribe = [self = shared_from_this(), home, turn = turn_, to = std::move(to),
                      viewer = viewer_] {
        auto watching = self->server_.live.subscribe(self->server_, viewer, to);
        net::post(home, [self, turn, watching = std::move(watching)]() mutable {
            if (self->turn_ == turn && !self->ending_) self->watching_ = std::move(watching);
        });
    };
    net::post(server_.long_jobs.get_executor(viewer_.credential), std::move(subscribe));
}

void live_socket::take(live_hub::message message) {
    if (ending_) return;
    if (message == nullptr) return end(live::close_code::going_away);
    if (!still_may()) return;
    if (queue_.size() < server_.limits.watcher_messages_max) return queue(std::move(message));
    // The message that is being written stays; the others are dropped, since a new connection
    // begins with a snapshot.
    const std::size_t left = queue_.size();
    queue_.erase(queue_.begin() + 1, queue_.end());
    queue(std::make_shared<const std::string>(live::too_slow_message(left)));
    end(live::close_code::try_again);
}

void live_socket::queue(live_hub::message message) {
    if (ending_) return;
    queue_.push_back(std::move(message));
    if (!is_writing_) write_next();
}

void live_socket::end(live::close_code why) {
    if (ending_) return;
    ending_ = why;
    watching_ = {};
    farewell_.expires_after(server_.limits.farewell);
    farewell_.async_wait([self = shared_from_this()](boost::system::error_code cancelled) {
        if (!cancelled) self->hang_up();
    });
    if (!is_writing_) close();
}

void live_socket::write_next() {
    is_writing_ = true;
    stream_.async_write(net::buffer(*queue_.front()),
                        [self = shared_from_this()](boost::system::error_code error, std::size_t) {
                            self->is_writing_ = false;
                            self->queue_.pop_front();
                            if (error) return self->hang_up();
                            if (!self->queue_.empty()) return self->write_next();
                            if (self->ending_) self->close();
                        });
}

void live_socket::close() {
    const auto code = static_cast<std::uint16_t>(*ending_);
    is_writing_ = true;  // nothing is sent after it
    stream_.async_close(websocket::close_reason(code),
                        [self = shared_from_this()](boost::system::error_code) {});
}

void live_socket::hang_up() {
    boost::system::error_code ignored;  // a socket that is already closed is what we want
    stream_.next_layer().close(ignored);
}

/// Why this request cannot become a socket; nothing: it can.
std::optional<response> refuse(const services& server, const request& incoming) {
    if (auto foreign = refuse_foreign_socket(server.settings, incoming)) return foreign;
    const auto refused = [&](errc code, const char* message, int status) {
        return error_response(incoming, fail(code, message), status);
    };
    if (incoming.method != "GET" || !websocket::is_upgrade(as_beast(incoming))) {
        response reply = refused(errc::bad_value, "/ws speaks WebSocket: ask for an upgrade", 426);
        reply.fields.emplace_back("upgrade", "websocket");
        return reply;
    }
    if (!offers_subprotocol(incoming))
        return refused(errc::bad_value, "offer the subprotocol semantic.v1", 400);
    const bool shows_key = incoming.field("x-api-key") || incoming.field("authorization");
    if (shows_key && !incoming.credential)
        return refused(errc::unauthorized, "this is no valid key", 401);
    if (server.stopping.load())
        return refused(errc::shutting_down, "the server is shutting down", 503);
    return std::nullopt;
}

}  // namespace

net::awaitable<std::optional<response>> get_ws(const services& server, const request& incoming,
                                               client_link& client) {
    if (auto refused = refuse(server, incoming)) co_return refused;
    // A client without a key can be evicted for a new one.
    const auto leave = std::make_shared<eviction>();
    std::function<void()> evict;
    if (!incoming.credential) evict = [leave] { leave->ask(); };
    auto slot = server.slots.watchers.take(incoming.credential.value_or(""), std::move(evict));
    if (!slot)
        co_return error_response(
            incoming,
            fail(errc::overloaded, "as many watch this server as may, of this key or all"), 503);
    auto socket = co_await client.take_socket();
    if (!socket)
        co_return error_response(
            incoming, fail(errc::bad_value, "nothing may follow before the server has switched"),
            400);
    client.streamed(101);
    const upgrade_request upgrade = as_beast(incoming);
    const auto one =
        std::make_shared<live_socket>(server, incoming, std::move(*socket), std::move(slot));
    leave->attach(one->evict());
    co_await one->run(&upgrade);
    co_return std::nullopt;
}

}  // namespace semantic::server
