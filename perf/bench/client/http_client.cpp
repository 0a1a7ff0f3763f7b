// SPDX-License-Identifier: Apache-2.0
#include "perf/bench/client/http_client.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "perf/bench/client/errors.hpp"

namespace semantic::bench {
namespace {

namespace net = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using net::ip::tcp;

constexpr auto use_tuple = net::as_tuple(net::use_awaitable);
constexpr std::size_t reply_bytes_max = std::size_t{16} << 20U;
constexpr std::size_t error_bytes_shown = 2'000;

/// The deadline of one request, which may be that of the run, and the error when it has passed.
struct request_clock {
    std::string address;
    std::chrono::seconds limit;
    clock::time_point end;
    bool ends_run;

    request_clock(std::string at, std::chrono::seconds request_limit, clock::time_point run_end)
        : address(std::move(at)),
          limit(request_limit),
          end(clock::now() + request_limit),
          ends_run(run_end < end) {
        if (ends_run) end = run_end;
        if (clock::now() >= run_end) throw time_is_up("--max-seconds are over");
    }

    /// Throws the error of a failed operation. `doing`: "connecting to".
    [[noreturn]] void fail(const char* doing, boost::system::error_code error) const {
        if (error == beast::error::timeout && ends_run) {
            throw time_is_up("--max-seconds are over while " + std::string(doing) + " " + address);
        }
        if (error == beast::error::timeout) {
            throw server_error(address + ": no answer within " + std::to_string(limit.count()) +
                               " s (--timeout-seconds)");
        }
        throw server_error(std::string(doing) + " " + address + ": " + error.message());
    }
};

/// Connects to the first address that answers. Errors: as fail().
net::awaitable<void> connect(beast::tcp_stream& stream, const server_url& url,
                             const request_clock& deadline) {
    boost::system::error_code last;
    for (const std::string& address : url.addresses) {
        stream.expires_at(deadline.end);
        const tcp::endpoint to(net::ip::make_address(address), url.port);
        auto [error] = co_await stream.async_connect(to, use_tuple);
        boost::system::error_code ignored;
        if (!error) {
            stream.socket().set_option(tcp::no_delay(true), ignored);
            co_return;
        }
        last = error;
        stream.socket().close(ignored);
    }
    deadline.fail("connecting to", last);
}

/// The request as Beast sends it.
http::request<http::string_body> make_message(const server_url& url, const header_list& common,
                                              http_request request) {
    http::request<http::string_body> message;
    message.method_string(request.method);
    message.target(url.base_path + request.path);
    message.version(11);
    message.set(http::field::host, url.authority());
    message.set(http::field::user_agent, "semantic-bench");
    message.set(http::field::connection, "close");
    for (const header_list& list : {common, request.headers}) {
        for (const auto& [name, value] : list) message.set(name, value);
    }
    if (!request.body.empty()) message.set(http::field::content_type, "application/json");
    message.body() = std::move(request.body);
    message.prepare_payload();
    return message;
}

}  // namespace

http_client::http_client(net::io_context& io, server_url url, header_list headers,
                         std::chrono::seconds request_limit, clock::time_point run_end)
    : io_(io),
      url_(std::move(url)),
      headers_(std::move(headers)),
      request_limit_(request_limit),
      run_end_(run_end) {}

net::awaitable<http_reply> http_client::fetch(http_request request) {
    const request_clock deadline(request.method + " " + url_.text() + request.path, request_limit_,
                                 run_end_);
    beast::tcp_stream stream(io_);
    co_await connect(stream, url_, deadline);
    const auto message = make_message(url_, headers_, std::move(request));
    auto [write_error, sent] = co_await http::async_write(stream, message, use_tuple);
    if (write_error) deadline.fail("sending", write_error);

    beast::flat_buffer buffer;
    http::response_parser<http::string_body> parser;
    parser.body_limit(reply_bytes_max);
    auto [read_error, received] = co_await http::async_read(stream, buffer, parser, use_tuple);
    if (read_error) deadline.fail("reading the reply of", read_error);
    co_return http_reply{parser.get().result_int(), std::move(parser.get().body())};
}

net::awaitable<clock::time_point> http_client::stream(http_request request, piece_sink sink) {
    const std::string address = request.method + " " + url_.text() + request.path;
    const request_clock deadline(address, request_limit_, run_end_);
    beast::tcp_stream stream(io_);
    co_await connect(stream, url_, deadline);
    const auto message = make_message(url_, headers_, std::move(request));
    const auto sent_at = clock::now();
    auto [write_error, sent] = co_await http::async_write(stream, message, use_tuple);
    if (write_error) deadline.fail("sending", write_error);

    beast::flat_buffer buffer;
    http::response_parser<http::buffer_body> parser;
    parser.body_limit(std::numeric_limits<std::uint64_t>::max());
    auto [header_error, header] =
        co_await http::async_read_header(stream, buffer, parser, use_tuple);
    if (header_error) deadline.fail("reading the reply of", header_error);
    const unsigned status = parser.get().result_int();

    std::string refusal;
    std::array<char, 65'536> piece;
    while (!parser.is_done()) {
        parser.get().body().data = piece.data();
        parser.get().body().size = piece.size();
        auto [error, count] = co_await http::async_read_some(stream, buffer, parser, use_tuple);
        if (error && error != http::error::need_buffer) deadline.fail("reading", error);
        const std::string_view bytes(piece.data(), piece.size() - parser.get().body().size);
        if (status == 200) {
            if (!bytes.empty()) sink(bytes, clock::now());
        } else {
            refusal +=
                bytes.substr(0, error_bytes_shown - std::min(refusal.size(), error_bytes_shown));
        }
    }
    if (status != 200) {
        throw server_error(address + ": HTTP " + std::to_string(status) + ": " + refusal);
    }
    co_return sent_at;
}

}  // namespace semantic::bench
