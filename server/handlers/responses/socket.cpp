#include "server/handlers/responses/socket.hpp"

#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/json.hpp>

#include <atomic>
#include <deque>
#include <memory>
#include <utility>

#include "protocol/responses/response_stream.hpp"
#include "protocol/responses/socket_message.hpp"
#include "protocol/wire/ids.hpp"
#include "protocol/wire/json.hpp"
#include "protocol/wire/named_model.hpp"
#include "server/handlers/responses/asking.hpp"
#include "server/http/cors.hpp"
#include "server/http/live/message_socket.hpp"
#include "server/http/middleware.hpp"
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

/// Of this process, like the sockets themselves.
std::atomic<int> open_sockets{0};

class place {
  public:
    /// Returns: null when there are as many as may be.
    static std::unique_ptr<place> take() {
        if (open_sockets.fetch_add(1) < response_sockets_max)
            return std::unique_ptr<place>(new place());
        open_sockets.fetch_sub(1);
        return nullptr;
    }
    ~place() { open_sockets.fetch_sub(1); }
    place(const place&) = delete;
    place& operator=(const place&) = delete;

  private:
    place() = default;
};

/// A refusal as a message: as the reply would have it, with its status and what says when to retry.
std::string error_message(const response& refused) {
    json::object headers;
    for (const auto& [name, value] : refused.fields) headers[name] = value;
    std::string text = R"({"type":"error","status":)" + std::to_string(refused.status) +
                       R"(,"headers":)" + protocol::to_text(headers) + ",";
    return text + refused.body.substr(1);
}

/// One client. Thread: its connection's strand. Kept by whatever waits for it.
class response_socket final : public client_link,
                              public event_sink,
                              public std::enable_shared_from_this<response_socket> {
  public:
    response_socket(const services& with, const request& handshake,
                    std::shared_ptr<message_socket> socket, std::unique_ptr<place> held)
        : with_(with),
          place_(std::move(held)),
          handshake_(handshake),
          socket_(std::move(socket)),
          arrived_(socket_->executor()) {
        handshake_.engine = {};
        handshake_.method = "POST";
    }

    /// Until the client has gone.
    net::awaitable<void> run();

    net::any_io_executor executor() override { return socket_->executor(); }
    net::awaitable<bool> write(std::string) override { co_return !is_gone_; }
    bool is_gone() const override { return is_gone_; }
    void when_gone(std::function<void()> notify) override {
        if (is_gone_ && notify) return notify();
        notify_ = std::move(notify);
    }
    std::chrono::milliseconds ping_every() const override { return with_.limits.ping_every; }
    bool keep_alive() const override { return true; }
    net::awaitable<std::optional<tcp::socket>> take_socket() override { co_return std::nullopt; }
    void streamed(int) override {}

    void add_field(std::string, std::string) override {}
    net::awaitable<bool> write(std::string_view events) override;
    net::awaitable<bool> finish() override { co_return !is_gone_; }
    bool begun() const noexcept override { return has_begun_; }

  private:
    net::awaitable<void> read();
    static net::awaitable<void> answer_all(std::shared_ptr<response_socket> self);
    net::awaitable<void> answer(request one);
    net::awaitable<reply> create(request& one, const route_match& match);
    net::awaitable<reply> steer(const request& one);
    net::awaitable<reply> ask(request& one);
    net::awaitable<reply> take_model(request& one);
    net::awaitable<bool> send(std::string message);
    std::optional<json::array> own_items(const request& one, const std::string& id);
    void remember(const request& one, const kept_question& question, const json::object& response);
    void forget();
    void leave();

    class keeping;

    const services& with_;
    const std::unique_ptr<place> place_;
    request handshake_;
    const std::shared_ptr<message_socket> socket_;
    net::steady_timer arrived_;
    std::deque<std::string> messages_;
    std::size_t message_bytes_ = 0;
    bool is_gone_ = false;
    bool has_begun_ = false;  // the answer that is being made
    std::string lane_;        // its stream_id
    std::function<void()> notify_;
    json::array earlier_;  // what the present request's own input follows
    std::optional<std::pair<storage::tenant_id, std::string>> latest_;  // in `unstored`
};

/// What is to be stored is; the rest is known as long as the client stays.
class response_socket::keeping final : public before_end {
  public:
    keeping(response_socket& socket, const request& one, responses::response_stream& made,
            const kept_question& question)
        : socket_(socket), one_(one), made_(made), question_(question) {}

    net::awaitable<void> run(std::string& last) override {
        response_keeping stored(socket_.with_, one_, made_, question_);
        const bool is_kept = question_.is_kept || !question_.conversation.empty();
        if (is_kept) co_await stored.run(last);
        const json::value& status = made_.response().at("status");
        const bool has_said = status == "completed" || status == "incomplete";
        if (is_kept || !has_said) co_return;
        auto remember = [this] {
            socket_.remember(one_, question_, made_.response());
            return true;
        };
        co_await run_on(socket_.with_.workers, remember);
    }

  private:
    response_socket& socket_;
    const request& one_;
    responses::response_stream& made_;
    const kept_question& question_;
};

net::awaitable<void> response_socket::run() {
    with_.responses.tasks.spawn(executor(), answer_all(shared_from_this()),
                                "responses of a WebSocket");
    co_await read();
    leave();
}

void response_socket::leave() {
    is_gone_ = true;
    if (notify_) notify_();
    arrived_.cancel();
    socket_->leave();
}

net::awaitable<void> response_socket::read() {
    for (;;) {
        auto message = co_await socket_->read();
        if (!message || is_gone_) co_return;
        message_bytes_ += message->size();
        const bool is_too_much = messages_.size() >= waiting_requests_max ||
                                 message_bytes_ > 2 * with_.limits.body_bytes_max;
        if (is_too_much) co_return;
        messages_.push_back(std::move(*message));
        arrived_.cancel();
    }
}

net::awaitable<void> response_socket::answer_all(std::shared_ptr<response_socket> self) {
    while (!self->is_gone_) {
        if (self->messages_.empty()) {
            self->arrived_.expires_at(clock::time_point::max());
            [[maybe_unused]] auto [error] = co_await self->arrived_.async_wait(use_tuple);
            continue;
        }
        request one = self->handshake_;
        one.body = std::move(self->messages_.front());
        self->messages_.pop_front();
        self->message_bytes_ -= one.body.size();
        co_await self->answer(std::move(one));
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

net::awaitable<void> response_socket::answer(request one) {
    const clock::time_point started = clock::now();
    one.target = one.path = "/v1/responses";
    one.id = request_id_of(request());
    const route_match match = match_route(with_.routes, one.method, one.path);
    auto read_message = [&] { return responses::read_socket_message(one.body); };
    const auto message = co_await run_on(with_.workers, read_message);
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
    if (one.place) one.place->release();
    if (refused) co_await send(error_message(*refused));
    end_request(with_, one, match,
                is_gone_  ? 499
                : refused ? refused->status
                          : 200,
                clock::now() - started);
}

net::awaitable<reply> response_socket::create(request& one, const route_match& match) {
    if (auto refused = take_place(with_, one, match)) co_return refused;
    if (auto refused = co_await take_model(one)) co_return refused;
    if (is_gone_) co_return std::nullopt;
    co_return co_await ask(one);
}

net::awaitable<reply> response_socket::steer(const request& one) {
    auto handed_back = responses::steer_failed(one.body);
    if (!handed_back) co_return error_response(one, handed_back.error());
    co_await send(std::move(*handed_back));
    co_return std::nullopt;
}

net::awaitable<reply> response_socket::take_model(request& one) {
    const route_match match = match_route(with_.routes, one.method, one.path);
    const auto name = protocol::named_model(one.body);
    const auto model = name ? with_.models.list().find(*name) : std::nullopt;
    if (may_wait(with_, match)) {
        waiting_client client{
            [this] { return is_gone_; },
            [this](std::function<void()> notify) { when_gone(std::move(notify)); }};
        auto lease = co_await with_.queue->lease(model, std::move(client));
        if (!lease) co_return error_response(one, lease.error());
        one.engine = std::move(*lease);
    } else if (auto refused = take_engine(with_, one, model)) {
        co_return refused;
    }
    one.engine.when_cut([weak = weak_from_this(), home = executor()] {
        net::post(home, [weak] {
            if (auto self = weak.lock()) self->leave();
        });
    });
    co_return std::nullopt;
}

std::optional<json::array> response_socket::own_items(const request& one, const std::string& id) {
    std::optional<json::array> found;
    if (latest_ && latest_->second == id) {
        auto kept = with_.responses.unstored.find(latest_->first, id);
        if (!kept) return std::nullopt;
        if (auto items = responses::items_of(std::span(&kept, 1))) found = std::move(*items);
    } else if (auto chain = with_.responses.stored.chain(tenant_of(one), id)) {
        if (!responses::check_has_ended(*chain->back())) return std::nullopt;
        if (auto items = responses::items_of(*chain)) found = std::move(*items);
    }
    if (found) earlier_ = *found;
    return found;
}

void response_socket::forget() {
    if (latest_) with_.responses.unstored.remove(latest_->first, latest_->second);
    latest_.reset();
}

/// Only the latest is: it has all that it follows.
void response_socket::remember(const request& one, const kept_question& question,
                               const json::object& response) {
    protocol::id_maker ids(random_bits);
    json::array items = std::exchange(earlier_, {});
    for (json::value& each : responses::named_items(question.input, ids))
        items.push_back(std::move(each));
    auto made = std::make_shared<responses::kept_response>();
    made->id = std::string(response.at("id").as_string());
    made->created_unix = response.at("created_at").as_int64();
    made->input = protocol::to_text(items);
    made->body = protocol::to_text(response);
    forget();
    if (!with_.responses.unstored.has_room_for(*made)) return;
    latest_.emplace(tenant_of(one), made->id);
    with_.responses.unstored.add(latest_->first, std::move(made));
}

net::awaitable<reply> response_socket::ask(request& one) {
    running_answer counted(with_.probe);
    auto agent = agent_of_headers(one);
    if (!agent) co_return error_response(one, agent.error());
    earlier_ = {};
    const own_lookup own = [&](const std::string& id) { return own_items(one, id); };
    auto parsed = co_await parse_asked(with_, one, own);
    if (!parsed) co_return error_response(one, parsed.error());
    if (auto refused = refuse_other_model(with_, one, parsed->model)) co_return refused;
    if (parsed->in_background)
        co_return error_response(
            one,
            protocol::fail(errc::unsupported, "background: goes with a POST alone", "background"));
    auto conversation = hold_conversation(with_, one, parsed->conversation);
    if (!conversation) co_return error_response(one, conversation.error());
    one.body.clear();

    protocol::id_maker ids(random_bits);
    responses::response_stream stream(reply_options_of(*parsed, ids.make("resp_")), ids);
    const kept_question question(*parsed);
    auto wanted = parsed->take_generation(std::move(*agent), answer_deadline(with_));
    wanted.agent_may_branch = true;
    wanted.only_reads = !parsed->generates;
    keeping at_end(*this, one, stream, question);
    answer_context asked{with_, one, *this, &at_end, this};
    co_return co_await stream_answer(asked, std::move(wanted), stream);
}

reply refuse(const services& with, const request& incoming) {
    if (auto foreign = refuse_foreign_socket(with.settings, incoming)) return foreign;
    if (!asks_for_socket(incoming)) {
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
    if (with.stopping.load())
        return error_response(incoming,
                              protocol::fail(errc::shutting_down, "the server is shutting down"));
    return std::nullopt;
}

}  // namespace

net::awaitable<reply> get_responses(const services& with, const request& incoming,
                                    client_link& client) {
    if (auto refused = refuse(with, incoming)) co_return refused;
    auto held = place::take();
    if (!held)
        co_return error_response(
            incoming, protocol::fail(errc::overloaded, "as many WebSockets are open as may be"));
    auto socket = co_await client.take_socket();
    if (!socket)
        co_return error_response(
            incoming,
            protocol::fail(errc::bad_value, "nothing may follow before the server has switched"),
            400);
    client.streamed(101);
    auto opened = co_await accept_socket(with.limits, incoming, std::move(*socket));
    if (!opened) co_return std::nullopt;
    const auto one =
        std::make_shared<response_socket>(with, incoming, std::move(opened), std::move(held));
    co_await one->run();
    co_return std::nullopt;
}

}  // namespace semantic::server
