// SPDX-License-Identifier: Apache-2.0
#include "server/handlers/kv_events.hpp"

#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "protocol/live/kv_events.hpp"
#include "server/http/cors.hpp"
#include "server/http/live/message_socket.hpp"
#include "server/http/middleware.hpp"
#include "server/live/kv_followers.hpp"
#include "server/runtime/tokens.hpp"
#include "server/runtime/workers.hpp"

namespace semantic::server {

namespace {

using clock = std::chrono::steady_clock;
using protocol::errc;
using protocol::fail;
using storage::kv_event_feed;

constexpr const char* too_slow =
    R"({"error":{"type":"too_slow","message":"events were lost; connect again for all of it"}})";

/// One of the limited number of followers, given back at its end.
class follower_slot {
  public:
    /// Returns: null when there are as many followers as may be.
    static std::unique_ptr<follower_slot> take(kv_followers& followers) {
        if (!followers.enter()) return nullptr;
        return std::unique_ptr<follower_slot>(new follower_slot(followers));
    }
    ~follower_slot() { followers_.leave(); }
    follower_slot(const follower_slot&) = delete;
    follower_slot& operator=(const follower_slot&) = delete;

  private:
    explicit follower_slot(kv_followers& followers) : followers_(followers) {}
    kv_followers& followers_;
};

/// Seconds since 1970.
double now() {
    return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch())
        .count();
}

/// What a waiting event takes in RAM, in bytes.
std::size_t bytes_of(const storage::kv_event& event) {
    constexpr std::size_t own = 2 * sizeof(storage::kv_event);  // with what keeps it
    if (const auto* stored = std::get_if<storage::blocks_stored>(&event))
        return own + stored->tokens.size() * sizeof(storage::token_id) +
               stored->names.size() * sizeof(storage::block_hash);
    if (const auto* removed = std::get_if<storage::blocks_removed>(&event))
        return own + removed->names.size() * sizeof(storage::block_hash);
    return own;
}

/// Whether a new snapshot must be sent in place of the event: other models are loaded.
bool needs_snapshot(const kv_event_feed::message& event) {
    return std::holds_alternative<storage::models_changed>(*event);
}

/// One client that follows the events. Thread: its connection's strand. Owner: the coroutines and
/// the feed's callback share it.
class kv_follower : public std::enable_shared_from_this<kv_follower> {
  public:
    kv_follower(const services& server, std::shared_ptr<message_socket> socket,
                std::unique_ptr<follower_slot> held)
        : server_(server),
          slot_(std::move(held)),
          socket_(std::move(socket)),
          arrived_(socket_->executor()) {}

    /// Sends events until the client is gone.
    net::awaitable<void> run() {
        // Following begins before the snapshot, so that events meanwhile are sent after it.
        const auto following = server_.kv.feed()->follow(
            [weak = weak_from_this(), home = socket_->executor()](kv_event_feed::message event) {
                net::post(home, [weak, event = std::move(event)] {
                    if (const auto self = weak.lock()) self->take(event);
                });
            });
        server_.kv.tasks.spawn(socket_->executor(), send_events(shared_from_this()), "KV events");
        // The client has nothing to send: this ends when it leaves.
        co_await socket_->read(1);
        leave();
    }

  private:
    /// Queues an event. A client that is too slow has lost events.
    void take(kv_event_feed::message event) {
        if (has_lost_) return;
        waiting_bytes_ += bytes_of(*event);
        waiting_.push_back(std::move(event));
        has_lost_ = waiting_bytes_ > kv_followers::waiting_bytes_max;
        if (has_lost_) waiting_.clear();
        arrived_.cancel();
    }

    void leave() {
        is_gone_ = true;
        arrived_.cancel();
        socket_->leave();
    }

    net::awaitable<bool> send(std::string message) {
        if (is_gone_) co_return false;
        const bool is_there = co_await socket_->write(std::move(message));
        if (!is_there) leave();
        co_return is_there;
    }

    net::awaitable<void> send_all(std::vector<std::string> messages) {
        for (std::string& each : messages)
            if (!co_await send(std::move(each))) co_return;
    }

    /// Sends a snapshot and then the events as they come.
    static net::awaitable<void> send_events(std::shared_ptr<kv_follower> self) {
        co_await self->send_snapshot();
        while (!self->is_over()) {
            if (self->waiting_.empty()) {
                self->arrived_.expires_at(clock::time_point::max());
                [[maybe_unused]] auto [error] = co_await self->arrived_.async_wait(use_tuple);
                continue;
            }
            self->waiting_bytes_ = 0;
            auto events = std::exchange(self->waiting_, {});
            // The new snapshot has the effect of all other events of this batch.
            if (std::ranges::any_of(events, needs_snapshot)) {
                co_await self->send_snapshot();
                continue;
            }
            auto make = [self, events = std::move(events)] {
                return self->stream_.changes(events, now());
            };
            co_await self->send_all(co_await run_on(self->server_.workers, std::move(make)));
        }
        if (!self->has_lost_) co_return;
        co_await self->send(too_slow);
        self->leave();
    }

    /// Sends the blocks of all agents, one agent at a time so that little is in memory. If a model
    /// changes meanwhile, an event has another snapshot follow.
    net::awaitable<void> send_snapshot() {
        if (!co_await send(stream_.cleared(now()))) co_return;
        const std::size_t engines = server_.engines.look_at_all().size();
        for (std::size_t i = 0; i < engines && !is_over(); ++i) {
            auto list = [this, i] {
                const auto all = server_.engines.look_at_all();
                return i < all.size() ? all[i]->remembered() : std::vector<storage::agent_id>{};
            };
            const std::vector<storage::agent_id> agents = co_await run_on(server_.workers, list);
            for (const storage::agent_id& agent : agents) {
                auto make = [this, i, &agent] {
                    const auto all = server_.engines.look_at_all();
                    if (i >= all.size()) return std::vector<std::string>{};
                    return stream_.snapshot(all[i]->stored_blocks(agent), now());
                };
                co_await send_all(co_await run_on(server_.workers, make));
                if (is_over()) co_return;
            }
        }
        co_await send(stream_.snapshot_over(now()));
    }

    bool is_over() const { return is_gone_ || has_lost_; }

    const services& server_;
    const std::unique_ptr<follower_slot> slot_;
    const std::shared_ptr<message_socket> socket_;
    net::steady_timer arrived_;
    protocol::live::kv_event_stream stream_;
    std::vector<kv_event_feed::message> waiting_;
    std::size_t waiting_bytes_ = 0;
    bool has_lost_ = false;  // events: it reads too slowly
    bool is_gone_ = false;
};

/// Why this request cannot follow the events; nothing: it can.
std::optional<response> refuse(const services& server, const request& incoming) {
    if (auto foreign = refuse_foreign_socket(server.settings, incoming)) return foreign;
    if (server.kv.feed() == nullptr)
        return error_response(
            incoming, fail(errc::not_found, "this server publishes no KV events: see --kv-events"));
    if (!asks_for_socket(incoming)) {
        constexpr int upgrade_required = 426;
        response refused = error_response(
            incoming, fail(errc::bad_value, "/ws/kv-events speaks WebSocket: ask for an upgrade"),
            upgrade_required);
        refused.fields.emplace_back("upgrade", "websocket");
        return refused;
    }
    if (server.stopping.load())
        return error_response(incoming, fail(errc::shutting_down, "the server is shutting down"));
    return std::nullopt;
}

}  // namespace

net::awaitable<std::optional<response>> get_kv_events(const services& server,
                                                      const request& incoming,
                                                      client_link& client) {
    if (auto refused = refuse(server, incoming)) co_return refused;
    auto held = follower_slot::take(server.kv);
    if (!held)
        co_return error_response(
            incoming, fail(errc::overloaded, "as many follow this server's KV events as may"));
    auto socket = co_await client.take_socket();
    if (!socket)
        co_return error_response(
            incoming, fail(errc::bad_value, "nothing may follow before the server has switched"),
            400);
    client.streamed(101);
    auto opened = co_await accept_socket(server.limits, incoming, std::move(*socket));
    if (!opened) co_return std::nullopt;
    const auto one = std::make_shared<kv_follower>(server, std::move(opened), std::move(held));
    co_await one->run();
    co_return std::nullopt;
}

}  // namespace semantic::server
