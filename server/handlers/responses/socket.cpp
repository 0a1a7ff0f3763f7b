// SPDX-License-Identifier: Apache-2.0
#include "server/handlers/responses/socket.hpp"

#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/json.hpp>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "protocol/responses/response_stream.hpp"
#include "protocol/responses/socket_message.hpp"
#include "protocol/wire/ids.hpp"
#include "protocol/wire/json.hpp"
#include "protocol/wire/named_model.hpp"
#include "server/handlers/responses/asking.hpp"
#include "server/handlers/responses/compaction.hpp"
#include "server/http/cors.hpp"
#include "server/http/live/message_socket.hpp"
#include "server/http/middleware.hpp"
#include "server/live/socket_checks.hpp"
#include "server/runtime/logging.hpp"
#include "server/runtime/task_group.hpp"
#include "server/usage/key_account.hpp"

namespace semantic::server {

namespace {

namespace json = boost::json;
namespace responses = protocol::responses;
using clock = std::chrono::steady_clock;
using protocol::errc;
using reply = std::optional<response>;
using tcp = net::ip::tcp;

// The most bytes of a message that one read returns.
constexpr std::size_t message_piece_bytes = 64 * 1024;

/// Counts the open sockets, of all and of each tenant.
class open_sockets {
  public:
    /// One open socket, given back at its end.
    class slot {
      public:
        slot(open_sockets& all, std::string tenant) : all_(all), tenant_(std::move(tenant)) {}
        ~slot() { all_.give_back(tenant_); }
        slot(const slot&) = delete;
        slot& operator=(const slot&) = delete;

      private:
        open_sockets& all_;
        const std::string tenant_;
    };

    /// Takes a socket. `tenant_max`: how many one tenant may have. Errors: overloaded,
    /// rate_limited.
    protocol::result<std::unique_ptr<slot>> take(const std::string& tenant,
                                                 std::size_t tenant_max) {
        std::lock_guard lock(mutex_);
        if (total_ >= response_sockets_max)
            return protocol::fail(errc::overloaded, "as many WebSockets are open as may be");
        std::size_t& own = of_tenants_[tenant];
        if (own >= tenant_max)
            return protocol::fail(errc::rate_limited,
                                  std::to_string(tenant_max) +
                                      " WebSockets of this key are open, which is the limit");
        ++own;
        ++total_;
        return std::make_unique<slot>(*this, tenant);
    }

  private:
    void give_back(const std::string& tenant) {
        std::lock_guard lock(mutex_);
        const auto own = of_tenants_.find(tenant);
        if (--own->second == 0) of_tenants_.erase(own);
        --total_;
    }

    std::mutex mutex_;
    std::map<std::string, std::size_t> of_tenants_;  // guarded by mutex_
    std::size_t total_ = 0;                          // guarded by mutex_
};

open_sockets all_sockets;

/// A refusal as a WebSocket message: the reply's body, with its status and headers (such as
/// retry-after).
std::string error_message(const response& refused) {
    json::object headers;
    for (const auto& [name, value] : refused.fields) headers[name] = value;
    std::string text = R"({"type":"error","status":)" + std::to_string(refused.status) +
                       R"(,"headers":)" + protocol::to_text(headers) + ",";
    return text + refused.body.substr(1);
}

/// One client's WebSocket. Reads messages and answers them one after the other. Thread: its
/// connection's strand. Owner: the coroutines share it.
class response_socket final : public client_link,
                              public event_sink,
                              public std::enable_shared_from_this<response_socket> {
  public:
    response_socket(const services& server, const request& handshake,
                    std::shared_ptr<message_socket> socket,
                    std::unique_ptr<open_sockets::slot> slot)
        : server_(server),
          slot_(std::move(slot)),
          handshake_(handshake),
          socket_(std::move(socket)),
          body_share_(server.bodies),
          arrived_(socket_->executor()),
          answered_(socket_->executor()) {
        handshake_.engine = {};
        handshake_.method = "POST";
        body_share_.set_tenant(handshake_.credential.value_or(""));
        handshake_.gone = nullptr;  // it belongs to the connection, which this socket has taken
    }

    /// Reads messages until the client is gone.
    net::awaitable<void> run();

    net::any_io_executor executor() override { return socket_->executor(); }
    net::awaitable<bool> write(std::string) override { co_return !is_gone_; }
    bool is_gone() const override { return is_gone_; }
    void when_gone(std::function<void()> notify) override {
        if (is_gone_ && notify) return notify();
        notify_ = std::move(notify);
    }
    std::chrono::milliseconds ping_every() const override { return server_.limits.ping_every; }
    bool keep_alive() const override { return true; }
    net::awaitable<std::optional<tcp::socket>> take_socket() override { co_return std::nullopt; }
    void streamed(int) override {}

    void add_field(std::string, std::string) override {}
    /// Sends the data of each event as a message.
    net::awaitable<bool> write(std::string_view events) override;
    net::awaitable<bool> finish() override { co_return !is_gone_; }
    bool begun() const noexcept override { return has_begun_; }

  private:
    /// Reads messages into the queue until the client is gone or sends too many.
    net::awaitable<void> read();
    net::awaitable<std::optional<std::string>> read_message();
    net::awaitable<void> wait_until_answered();
    /// Answers the queued messages, one after the other.
    static net::awaitable<void> answer_all(std::shared_ptr<response_socket> self);
    /// Answers one message.
    net::awaitable<void> answer(request& one);
    bool has_key() const {
        return credential_of(server_.settings, handshake_) == handshake_.credential;
    }
    /// Makes a response: takes a slot of the key and an engine, and asks. Returns: a refusal;
    /// nothing once it is sent.
    net::awaitable<reply> create(request& one, const route_match& match);
    /// Hands a message back that was to change the running answer, which the server does not do.
    net::awaitable<reply> steer(request& one);
    /// Has the engine answer; the events go to the client.
    net::awaitable<reply> ask(request& one);
    /// Waits for the engine of the message's model. Returns: a refusal; nothing: `one.engine` is
    /// set.
    net::awaitable<reply> take_model(request& one);
    net::awaitable<bool> send(std::string message);
    /// The conversation up to response `id`: the latest one of this socket, or a stored one.
    /// Nothing where it is neither.
    std::optional<std::vector<kept_responses::kept>> own_chain(const request& one,
                                                               const std::string& id);
    /// Remembers the latest response, which was not stored, with all that it follows.
    void remember(const request& one, const kept_question& question, const json::object& response);
    /// Forgets the remembered response.
    void forget();
    /// Ends the socket: cancels the running answer and closes the connection.
    void leave();

    class keeping;

    const services& server_;
    const std::unique_ptr<open_sockets::slot> slot_;
    request handshake_;
    const std::shared_ptr<message_socket> socket_;
    body_budget::share body_share_;  // of the one message that is not small
    net::steady_timer arrived_;      // a message
    net::steady_timer answered_;     // all that had arrived
    socket_checks::subscription checked_;
    std::deque<std::string> messages_;
    // Of the messages that wait in `messages_`.
    std::size_t message_bytes_ = 0;
    bool is_answering_ = false;
    bool is_gone_ = false;
    bool has_begun_ = false;  // the answer that is being made
    std::string lane_;        // the message's stream_id, which its events carry
    std::function<void()> notify_;
    std::vector<kept_responses::kept> earlier_;  // what the present request's own input follows
    std::optional<std::pair<storage::tenant_id, std::string>> latest_;  // in `unstored`
};

/// Stores the response if its request wants that; else remembers it for as long as the client is
/// connected.
class response_socket::keeping final : public before_end {
  public:
    keeping(response_socket& socket, const request& one, responses::response_stream& made,
            const kept_question& question)
        : socket_(socket), one_(one), made_(made), question_(question) {}

    net::awaitable<void> run(std::string& last) override {
        response_keeping stored(socket_.server_, one_, made_, question_);
        const bool is_kept = question_.is_kept || !question_.conversation.empty();
        if (is_kept) co_await stored.run(last);
        const json::value& status = made_.response().at("status");
        const bool has_said = status == "completed" || status == "incomplete";
        if (is_kept || !has_said) co_return;
        auto remember = [this] {
            socket_.remember(one_, question_, made_.response());
            return true;
        };
        co_await run_on(choose_workers(socket_.server_, one_, job_length::long_job), remember);
    }

  private:
    response_socket& socket_;
    const request& one_;
    responses::response_stream& made_;
    const kept_question& question_;
};

net::awaitable<void> response_socket::run() {
    server_.responses.tasks.spawn(executor(), answer_all(shared_from_this()),
                                  "responses of a WebSocket");
    // When the key file is read again, a socket whose key is gone from it ends.
    checked_ = server_.sockets.follow([weak = weak_from_this(), home = executor()] {
        net::post(home, [weak] {
            const auto self = weak.lock();
            if (self && !self->has_key()) self->leave();
        });
    });
    co_await read();
    leave();
}

void response_socket::leave() {
    is_gone_ = true;
    if (notify_) notify_();
    arrived_.cancel();
    answered_.cancel();
    socket_->leave();
}

net::awaitable<void> response_socket::read() {
    for (;;) {
        auto message = co_await read_message();
        if (!message || is_gone_ || messages_.size() >= waiting_requests_max) co_return;
        message_bytes_ += message->size();
        messages_.push_back(std::move(*message));
        arrived_.cancel();
    }
}

net::awaitable<void> response_socket::wait_until_answered() {
    while (!is_gone_ && (is_answering_ || !messages_.empty())) {
        answered_.expires_at(clock::time_point::max());
        [[maybe_unused]] auto [error] = co_await answered_.async_wait(use_tuple);
    }
}

/// Reads one message; nothing when the client is gone, is too slow, or gets no room for it. A
/// message that is not small waits until all earlier ones are answered: it would hold its share of
/// the memory for bodies all that time. Then the limits of a body apply to it.
net::awaitable<std::optional<std::string>> response_socket::read_message() {
    std::string message;
    std::optional<clock::time_point> until;  // of a message that has begun
    for (;;) {
        const std::size_t next = message.size() + message_piece_bytes;
        if (message_bytes_ + next > server_.limits.body_bytes_free) {
            const clock::time_point before = clock::now();
            co_await wait_until_answered();
            if (is_gone_) co_return std::nullopt;
            if (until) *until += clock::now() - before;
            const bool has_room =
                co_await body_share_.grow_to(next, until.value_or(clock::time_point::max()));
            if (!has_room) co_return std::nullopt;
        }
        std::optional<clock::duration> within;
        if (until) within = *until - clock::now();
        if (within && body_share_.is_counted())
            within = std::min<clock::duration>(*within, server_.limits.body_silence);
        auto piece = co_await socket_->read(message_piece_bytes, within);
        if (!piece) co_return std::nullopt;
        message += piece->bytes;
        if (piece->is_last) co_return message;
        if (!until) until = clock::now() + server_.limits.body;
    }
}

net::awaitable<void> response_socket::answer_all(std::shared_ptr<response_socket> self) {
    while (!self->is_gone_) {
        if (self->messages_.empty()) {
            // Never expires: a message, or the end of the connection, cancels it.
            self->arrived_.expires_at(clock::time_point::max());
            [[maybe_unused]] auto [error] = co_await self->arrived_.async_wait(use_tuple);
            continue;
        }
        request one = self->handshake_;
        one.body = std::move(self->messages_.front());
        one.drop_body = [self, &one] {
            one.body = {};
            self->body_share_.free();
        };
        self->messages_.pop_front();
        self->message_bytes_ -= one.body.size();
        self->is_answering_ = true;
        co_await self->answer(one);
        one.drop_body();
        self->is_answering_ = false;
        self->answered_.cancel();
    }
    self->forget();
}

net::awaitable<bool> response_socket::send(std::string message) {
    if (is_gone_) co_return false;
    const bool is_there = co_await socket_->write(responses::in_lane(std::move(message), lane_));
    if (!is_there) leave();
    co_return is_there;
}

net::awaitable<bool> response_socket::write(std::string_view events) {
    constexpr std::string_view data = "data: ";
    has_begun_ = true;
    while (!events.empty()) {
        const std::size_t end = std::min(events.find('\n'), events.size());
        const std::string_view line = events.substr(0, end);
        events.remove_prefix(std::min(end + 1, events.size()));
        if (!line.starts_with(data)) continue;
        const bool is_there = co_await send(std::string(line.substr(data.size())));
        if (!is_there) co_return false;
    }
    co_return !is_gone_;
}

net::awaitable<void> response_socket::answer(request& one) {
    const clock::time_point started = clock::now();
    one.target = one.path = "/v1/responses";
    // A new id, since an empty request names none.
    one.id = request_id_of(request());
    const route_match match = match_route(server_.routes, one.method, one.path);
    if (!has_key()) {
        co_await send(error_message(
            error_response(one, protocol::fail(errc::unauthorized, "this key is none any more"))));
        end_request(server_, one, match, 401, clock::now() - started);
        co_return leave();
    }
    auto look = [&] { return responses::read_socket_message(one.body); };
    const auto message = co_await run_on(choose_workers(server_, one), look);
    if (message && message->type == "response.processed") co_return;  // a client has read one
    lane_ = message ? message->lane : "";
    has_begun_ = false;
    reply refused;
    if (!message)
        refused = error_response(one, message.error());
    else if (message->type == "response.steer")
        refused = co_await steer(one);
    else if (message->type == "response.create")
        refused = co_await create(one, match);
    else
        refused = error_response(
            one, protocol::fail(errc::bad_value, R"(type: must be "response.create")", "type"));
    one.engine = {};
    if (one.slot) one.slot->release();
    if (refused) co_await send(error_message(*refused));
    end_request(server_, one, match,
                // 499: the client has closed the connection; no client sees it.
                is_gone_  ? 499
                : refused ? refused->status
                          : 200,
                clock::now() - started);
}

net::awaitable<reply> response_socket::create(request& one, const route_match& match) {
    if (auto refused = take_key_slot(server_, one, match)) co_return refused;
    if (auto refused = co_await take_model(one)) co_return refused;
    if (is_gone_) co_return std::nullopt;
    co_return co_await ask(one);
}

net::awaitable<reply> response_socket::steer(request& one) {
    auto hand_back = [&] { return responses::steer_failed(one.body); };
    auto handed_back = co_await run_on(choose_workers(server_, one), hand_back);
    one.drop_body();
    if (!handed_back) co_return error_response(one, handed_back.error());
    co_await send(std::move(*handed_back));
    co_return std::nullopt;
}

net::awaitable<reply> response_socket::take_model(request& one) {
    const route_match match = match_route(server_.routes, one.method, one.path);
    auto look = [&] { return protocol::named_model(one.body); };
    const auto name = co_await read_kept(server_, one, one.body.size(), look);
    const auto model = name ? server_.models.list().find(*name) : std::nullopt;
    if (may_wait(server_, match)) {
        if (!body_share_.set_aside())
            co_return error_response(
                one,
                protocol::fail(errc::overloaded, "too many large requests wait for their model"));
        waiting_client client{
            [this] { return is_gone_; },
            [this](std::function<void()> notify) { when_gone(std::move(notify)); }};
        auto lease = co_await server_.queue->lease(model, std::move(client));
        if (!lease) co_return error_response(one, lease.error());
        one.engine = std::move(*lease);
    } else if (auto refused = take_engine(server_, one, model)) {
        co_return refused;
    }
    // May be called from another thread, and after the socket is gone.
    one.engine.when_cut([weak = weak_from_this(), home = executor()] {
        net::post(home, [weak] {
            if (auto self = weak.lock()) self->leave();
        });
    });
    co_return std::nullopt;
}

std::optional<std::vector<kept_responses::kept>> response_socket::own_chain(const request& one,
                                                                            const std::string& id) {
    std::optional<std::vector<kept_responses::kept>> found;
    if (latest_ && latest_->second == id) {
        auto latest = server_.responses.unstored.find(latest_->first, id);
        if (!latest) return std::nullopt;
        found.emplace({std::move(latest)});
    } else if (auto chain = server_.responses.stored.chain(tenant_of(one), id)) {
        if (!responses::check_has_ended(*chain->back())) return std::nullopt;
        found.emplace(std::move(*chain));
    }
    if (found) earlier_ = *found;
    return found;
}

void response_socket::forget() {
    if (latest_) server_.responses.unstored.remove(latest_->first, latest_->second);
    latest_.reset();
}

void response_socket::remember(const request& one, const kept_question& question,
                               const json::object& response) {
    // What own_chain() found for this question.
    auto before = responses::items_text_of(std::exchange(earlier_, {}));
    if (!before) return forget();
    auto made = std::make_shared<responses::kept_response>();
    made->id = std::string(response.at("id").as_string());
    made->created_unix = response.at("created_at").as_int64();
    made->input = responses::joined_items(std::move(*before), question.input);
    made->body = protocol::to_text(response);
    auto listed = server_.responses.unstored.list(std::move(made));
    forget();
    if (!listed) return;
    latest_.emplace(tenant_of(one), listed->response->id);
    server_.responses.unstored.add(latest_->first, std::move(*listed));
}

net::awaitable<reply> response_socket::ask(request& one) {
    running_answer counted(server_.probe);
    auto agent = agent_of_headers(one);
    if (!agent) co_return error_response(one, agent.error());
    earlier_ = {};
    const own_lookup own = [&](const std::string& id) { return own_chain(one, id); };
    auto parsed = co_await parse_asked(server_, one, own);
    if (!parsed) co_return error_response(one, parsed.error());
    if (auto refused = refuse_other_model(server_, one, parsed->model)) co_return refused;
    if (parsed->in_background)
        co_return error_response(
            one,
            protocol::fail(errc::unsupported, "background: goes with a POST alone", "background"));
    auto conversation = hold_conversation(server_, one, parsed->conversation);
    if (!conversation) co_return error_response(one, conversation.error());

    const answer_context about{server_, one, *this};
    std::string summary = co_await compact_when_due(about, own, *parsed);
    protocol::id_maker ids(random_bits);
    std::string response_id = ids.make("resp_");
    responses::response_stream stream(reply_options_of(*parsed, response_id), ids);
    stream.put_summary(std::move(summary));
    const kept_question question(*parsed);
    auto wanted = parsed->take_generation(std::move(*agent), answer_deadline(server_));
    wanted.agent_may_branch = true;
    wanted.only_reads = !parsed->generates;
    wanted.message_id = std::move(response_id);
    keeping at_end(*this, one, stream, question);
    answer_context asked{server_, one, *this, &at_end, this};
    co_return co_await stream_answer(asked, std::move(wanted), stream);
}

/// Why this request cannot become a socket; nothing: it can.
reply refuse(const services& server, const request& incoming) {
    if (auto foreign = refuse_foreign_socket(server.settings, incoming)) return foreign;
    if (incoming.method != "GET" || !asks_for_socket(incoming)) {
        constexpr int upgrade_required = 426;
        response refused = error_response(
            incoming,
            protocol::fail(
                errc::method_not_allowed,
                "GET /v1/responses speaks WebSocket: ask for an upgrade, or send a POST"),
            upgrade_required);
        refused.fields.emplace_back("upgrade", "websocket");
        return refused;
    }
    if (server.stopping.load())
        return error_response(incoming,
                              protocol::fail(errc::shutting_down, "the server is shutting down"));
    return std::nullopt;
}

}  // namespace

net::awaitable<reply> get_responses(const services& server, const request& incoming,
                                    client_link& client) {
    if (auto refused = refuse(server, incoming)) co_return refused;
    const bool has_keys = needs_key(server.settings);
    auto slot = all_sockets.take(incoming.credential.value(),
                                 has_keys ? response_sockets_of_tenant_max : response_sockets_max);
    if (!slot) co_return error_response(incoming, slot.error());
    auto socket = co_await client.take_socket();
    if (!socket)
        co_return error_response(
            incoming,
            protocol::fail(errc::bad_value, "nothing may follow before the server has switched"),
            400);
    client.streamed(101);
    auto opened = co_await accept_socket(server.limits, incoming, std::move(*socket));
    if (!opened) co_return std::nullopt;
    const auto one =
        std::make_shared<response_socket>(server, incoming, std::move(opened), std::move(*slot));
    co_await one->run();
    co_return std::nullopt;
}

}  // namespace semantic::server
