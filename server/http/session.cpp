#include "server/http/session.hpp"

#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>

#include <optional>
#include <tuple>

#include "server/http/connection.hpp"
#include "server/http/middleware.hpp"
#include "server/runtime/deadline.hpp"
#include "server/runtime/logging.hpp"

namespace semantic::server {

namespace {

namespace http = boost::beast::http;
using protocol::errc;
using request_parser = http::request_parser<http::string_body>;
using clock = std::chrono::steady_clock;

/// How reading a request ended, apart from success.
struct read_failure {
    std::optional<response> reply;  // nothing: the client is gone, or never was about to ask
};

bool is_http_fault(boost::system::error_code error) {
    return error.category() == http::make_error_code(http::error::bad_method).category();
}

read_failure judge(boost::system::error_code error, bool late, const request& to,
                   const http_limits& limits) {
    if (error == http::error::header_limit || error == http::error::buffer_overflow)
        return {error_response(to,
                               {errc::bad_value,
                                "the request header has more than " +
                                    std::to_string(limits.header_bytes_max) + " bytes",
                                {},
                                {}},
                               431)};
    if (error == http::error::body_limit)
        return {error_response(to, {errc::body_too_large,
                                    "the request body has more than " +
                                        std::to_string(limits.body_bytes_max) + " bytes",
                                    {},
                                    {}})};
    if (late)
        return {error_response(
            to, {errc::request_timeout, "the request did not arrive in time", {}, {}})};
    if (error == http::error::end_of_stream || error == http::error::partial_message) return {};
    if (is_http_fault(error))
        return {error_response(
            to, {errc::bad_value, "this is not valid HTTP: " + error.message(), {}, {}}, 400)};
    return {};
}

request header_of(const request_parser& parser) {
    request incoming;
    const auto& message = parser.get();
    incoming.method = std::string(message.method_string());
    incoming.target = std::string(message.target());
    incoming.http_1_0 = message.version() < 11;
    incoming.keep_alive = message.keep_alive();
    for (const auto& field : message)
        incoming.fields.emplace_back(std::string(field.name_string()), std::string(field.value()));
    return incoming;
}

bool has_body(const request_parser& parser) {
    return parser.chunked() || parser.content_length().value_or(0) > 0;
}

response compressed(const request& incoming, const std::string& field) {
    response reply = error_response(incoming,
                                    {errc::unsupported,
                                     "send the body without " + field +
                                         ": compressed bodies are not read",
                                     {},
                                     {}},
                                    415);
    reply.fields.emplace_back("accept-encoding", "identity");
    return reply;
}

/// Faults of HTTP that can be told from the header: the body is not worth reading then.
std::optional<response> refuse_body(const services& with, const request& incoming,
                                    const request_parser& parser) {
    if (auto length = parser.content_length(); length && *length > with.limits.body_bytes_max) {
        std::string what = "the request body has " + std::to_string(*length) +
                           " bytes, the limit is " + std::to_string(with.limits.body_bytes_max);
        return error_response(incoming, {errc::body_too_large, std::move(what), {}, {}});
    }
    if (auto coding = incoming.field("content-encoding");
        coding && !equal_ignoring_case(*coding, "identity"))
        return compressed(incoming, "content-encoding");
    if (auto coding = incoming.field("transfer-encoding");
        coding && !equal_ignoring_case(*coding, "chunked"))
        return compressed(incoming, "a transfer-encoding beside chunked");
    if (auto expect = incoming.field("expect");
        expect && !equal_ignoring_case(*expect, "100-continue"))
        return error_response(
            incoming, {errc::unsupported, "the only expectation served is 100-continue", {}, {}},
            417);
    return std::nullopt;
}

/// One request's way through the connection.
class exchange {
  public:
    exchange(std::shared_ptr<connection> link, const services& with)
        : link_(std::move(link)), with_(with), started_(clock::now()) {
        parser_.header_limit(static_cast<std::uint32_t>(with.limits.header_bytes_max));
        // Checked by us once the route is known: the parser would not tell how long the body is.
        parser_.body_limit(boost::none);
    }

    /// Returns: whether the connection can serve another request.
    net::awaitable<bool> run();

  private:
    net::awaitable<bool> read_header();
    net::awaitable<bool> read_body();
    net::awaitable<void> answer();
    net::awaitable<std::optional<response>> call_handler();
    net::awaitable<bool> send(response reply);
    net::awaitable<bool> fail(read_failure failure);

    std::shared_ptr<connection> link_;
    const services& with_;
    clock::time_point started_;
    request_parser parser_;
    request incoming_;
    route_match match_;
};

net::awaitable<bool> exchange::send(response reply) {
    if (with_.stopping.load()) link_->end_keep_alive();
    std::string bytes = response_bytes(incoming_, reply, link_->keep_alive());
    bool sent = co_await link_->write(std::move(bytes));
    end_request(with_, incoming_, match_, sent ? reply.status : 499, clock::now() - started_);
    co_return sent && link_->keep_alive();
}

net::awaitable<bool> exchange::fail(read_failure failure) {
    link_->end_keep_alive();  // where the next request would begin is unknown
    if (failure.reply) co_await send(std::move(*failure.reply));
    co_return false;
}

net::awaitable<bool> exchange::read_header() {
    boost::system::error_code error;
    bool late = false;
    {
        deadline limit(link_->socket(), with_.limits.header);
        std::tie(error, std::ignore) =
            co_await http::async_read_header(link_->socket(), link_->buffer(), parser_, use_tuple);
        late = limit.passed();
    }
    incoming_ = header_of(parser_);
    match_ = begin_request(with_, incoming_);
    if (error) co_return co_await fail(judge(error, late, incoming_, with_.limits));
    link_->begin_request(incoming_.keep_alive && !with_.stopping.load());
    co_return true;
}

net::awaitable<bool> exchange::read_body() {
    if (!has_body(parser_) && parser_.is_done()) co_return true;
    parser_.body_limit(
        with_.limits.body_bytes_max);  // holds for chunked bodies, whose length nobody announced
    if (incoming_.field("expect") && link_->buffer().size() == 0 && !incoming_.http_1_0) {
        if (!co_await link_->write("HTTP/1.1 100 Continue\r\n\r\n")) co_return false;
    }
    boost::system::error_code error;
    bool late = false;
    {
        deadline limit(link_->socket(), with_.limits.body);
        std::tie(error, std::ignore) =
            co_await http::async_read(link_->socket(), link_->buffer(), parser_, use_tuple);
        late = limit.passed();
    }
    if (error) co_return co_await fail(judge(error, late, incoming_, with_.limits));
    incoming_.body = std::move(parser_.get().body());
    co_return true;
}

net::awaitable<bool> exchange::run() {
    if (!co_await read_header()) co_return false;
    std::optional<response> refusal = refuse_early(with_, incoming_, match_);
    if (!refusal) refusal = refuse_body(with_, incoming_, parser_);
    if (refusal) {
        // The body that follows is not read; of one in an unknown coding nobody knows the end.
        if (has_body(parser_) || incoming_.field("transfer-encoding")) link_->end_keep_alive();
        co_return co_await send(std::move(*refusal));
    }
    if (!co_await read_body()) co_return false;
    co_await answer();
    co_return link_->keep_alive() && !link_->is_gone();
}

net::awaitable<std::optional<response>> exchange::call_handler() {
    std::string fault;
    try {
        if (match_.found->plain != nullptr) co_return match_.found->plain(with_, incoming_);
        co_return co_await match_.found->async(with_, incoming_, *link_);
    } catch (const boost::system::system_error& error) {
        if (error.code() == net::error::operation_aborted) throw;  // the server stops: unwind
        fault = error.what();
    } catch (const std::exception& error) {
        fault = error.what();
    }
    log_event(log_level::error, incoming_.id, incoming_.path.substr(0, 200) + " failed: " + fault);
    if (link_->streamed_status() != 0) {
        link_->end_keep_alive();  // half a reply is out; only the end of the connection can say
                                  // that it is broken
        co_return std::nullopt;
    }
    co_return error_response(
        incoming_,
        {errc::internal, "internal error; the log has it under this request id", {}, {}});
}

net::awaitable<void> exchange::answer() {
    bool waits = match_.found->async != nullptr;
    if (waits) link_->start_watching();
    std::optional<response> reply = co_await call_handler();
    if (waits) co_await link_->stop_watching();
    if (reply) {
        co_await send(std::move(*reply));
        co_return;
    }
    bool complete = link_->streamed_status() != 0 && !link_->is_gone();
    if (link_->is_gone()) with_.probe.clients_gone.fetch_add(1);
    end_request(with_, incoming_, match_, complete ? link_->streamed_status() : 499,
                clock::now() - started_);
}

/// Keeps the number of open connections right, whichever way the session ends.
class open_connection {
  public:
    explicit open_connection(server_probe& probe) : probe_(probe) {
        probe_.open_connections.fetch_add(1);
        probe_.connections_accepted.fetch_add(1);
    }
    ~open_connection() { probe_.open_connections.fetch_sub(1); }
    open_connection(const open_connection&) = delete;
    open_connection& operator=(const open_connection&) = delete;

  private:
    server_probe& probe_;
};

}  // namespace

net::awaitable<void> run_session(net::ip::tcp::socket socket, const services* with,
                                 task_group* tasks) {
    open_connection counted(with->probe);
    auto link = std::make_shared<connection>(std::move(socket), with->limits, *tasks);
    // Two statements: behind a false && the wait was seen to happen all the same (README.md).
    for (;;) {
        if (!co_await link->wait_for_request()) break;
        exchange one(link, *with);
        if (!co_await one.run()) break;
    }
    co_await link->close();
}

}  // namespace semantic::server
