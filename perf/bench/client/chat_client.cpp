// SPDX-License-Identifier: Apache-2.0
#include "perf/bench/client/chat_client.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/json/parse.hpp>

#include <exception>
#include <memory>
#include <utility>

#include "perf/bench/client/errors.hpp"

namespace semantic::bench {
namespace {

namespace net = boost::asio;

/// Headers of every request: the key in the form of both vendors, and the version that Anthropic's
/// API requires.
header_list common_headers(const client_settings& settings) {
    header_list headers;
    if (!settings.api_key.empty()) {
        headers.emplace_back("Authorization", "Bearer " + settings.api_key);
        headers.emplace_back("x-api-key", settings.api_key);
    }
    if (settings.dialect == api::anthropic) headers.emplace_back("anthropic-version", "2023-06-01");
    return headers;
}

double seconds_between(clock::time_point from, clock::time_point to) {
    return std::chrono::duration<double>(to - from).count();
}

/// What the coroutines of generate_all() share until the last one has ended.
struct gathering {
    std::vector<generation> results;
    std::size_t open_count;
    std::exception_ptr failure;
    net::steady_timer all_ended;  // never expires; cancelled by the last

    gathering(net::io_context& io, std::size_t count)
        : results(count), open_count(count), all_ended(io, clock::time_point::max()) {}
};

net::awaitable<void> generate_one(chat_client* client, std::shared_ptr<gathering> all,
                                  std::size_t index, timed_request timed) {
    co_await client->pause(timed.delay);
    all->results[index] = co_await client->generate(std::move(timed.request));
}

}  // namespace

chat_client::chat_client(net::io_context& io, const client_settings& settings,
                         clock::time_point run_start)
    : http_(io, settings.url, common_headers(settings), settings.request_limit,
            run_start + settings.run_limit),
      dialect_(settings.dialect),
      extra_body_(settings.extra_body),
      model_(settings.model),
      context_max_(settings.context_max),
      run_start_(run_start) {}

net::awaitable<void> chat_client::open() {
    http_request call{"GET", "/v1/models", "", {}};
    const http_reply reply = co_await http_.fetch(std::move(call));
    if (reply.status == 401 || reply.status == 403) {
        throw server_error("GET /v1/models: HTTP " + std::to_string(reply.status) + ": " +
                           reply.body);
    }
    const auto found = reply.status == 200 ? read_models(reply.body, model_) : std::nullopt;
    if (model_.empty() && !found) {
        throw server_error("the server lists no model (GET /v1/models: HTTP " +
                           std::to_string(reply.status) + "); name one by --model");
    }
    if (model_.empty()) model_ = found->id;
    if (context_max_ == 0 && found) context_max_ = found->context_max.value_or(0);
}

net::awaitable<generation> chat_client::generate(generation_request request) {
    http_request call{"POST",
                      std::string(chat_path(dialect_)),
                      chat_body(dialect_, model_, request, extra_body_),
                      {}};
    if (dialect_ == api::anthropic) call.headers.emplace_back("X-Session-ID", request.session);
    call.headers.emplace_back("Accept", "text/event-stream");

    // Times are taken since the run's start, because the moment of sending is known only later;
    // they are made relative to it at the end.
    sse_parser parser;
    stream_reader reader(dialect_);
    std::optional<double> first_byte;
    const auto on_piece = [&](std::string_view bytes, clock::time_point at) {
        const double seconds = seconds_between(run_start_, at);
        if (!first_byte) first_byte = seconds;
        parser.feed(bytes, [&](const sse_event& event) { reader.on_event(event, seconds); });
    };
    const clock::time_point sent = co_await http_.stream(std::move(call), on_piece);
    generation result = reader.finish(seconds_between(run_start_, clock::now()));
    result.sent_at = seconds_between(run_start_, sent);
    result.first_byte_s = first_byte.value_or(result.end_s);
    for (double* time : {&result.first_byte_s, &result.first_s, &result.last_s, &result.end_s})
        *time -= result.sent_at;
    for (double& time : result.content_s) time -= result.sent_at;
    co_return result;
}

net::awaitable<std::vector<generation>> chat_client::generate_all(
    std::vector<timed_request> requests) {
    const auto all = std::make_shared<gathering>(http_.io(), requests.size());
    for (std::size_t i = 0; i < requests.size(); ++i) {
        const auto on_end = [all](std::exception_ptr failure) {
            if (failure && !all->failure) all->failure = failure;
            if (--all->open_count == 0) all->all_ended.cancel();
        };
        net::co_spawn(http_.io(), generate_one(this, all, i, std::move(requests[i])), on_end);
    }
    while (all->open_count > 0) {
        auto [cancelled] = co_await all->all_ended.async_wait(net::as_tuple(net::use_awaitable));
        static_cast<void>(cancelled);
    }
    if (all->failure) std::rethrow_exception(all->failure);
    co_return std::move(all->results);
}

net::awaitable<std::optional<std::int64_t>> chat_client::count_tokens(
    std::vector<message> messages) {
    http_request call{"POST", "/v1/messages/count_tokens", count_tokens_body(model_, messages), {}};
    const http_reply reply = co_await http_.fetch(std::move(call));
    if (reply.status != 200) co_return std::nullopt;
    boost::system::error_code error;
    const boost::json::value parsed = boost::json::parse(reply.body, error);
    const auto* body = error ? nullptr : parsed.if_object();
    const auto* count = body == nullptr ? nullptr : body->if_contains("input_tokens");
    if (count == nullptr || !count->is_int64()) co_return std::nullopt;
    co_return count->as_int64();
}

net::awaitable<bool> chat_client::evict(std::string session) {
    const std::string path = "/v1/agents/" + agent_of(dialect_, session) + "/evict";
    http_request call{"POST", path, "{}", {}};
    const http_reply reply = co_await http_.fetch(std::move(call));
    co_return reply.status >= 200 && reply.status < 300;
}

net::awaitable<std::optional<std::string>> chat_client::metrics() {
    http_request call{"GET", "/metrics", "", {}};
    http_reply reply = co_await http_.fetch(std::move(call));
    if (reply.status != 200) co_return std::nullopt;
    co_return std::move(reply.body);
}

net::awaitable<void> chat_client::wait_until_ready(std::chrono::seconds limit) {
    const auto end = clock::now() + limit;
    std::string last;
    while (clock::now() < end) {
        check_time();
        try {
            http_request call{"GET", "/v1/models", "", {}};
            const http_reply reply = co_await http_.fetch(std::move(call));
            if (reply.status == 200) co_return;
            last = "HTTP " + std::to_string(reply.status);
        } catch (const server_error& error) {
            last = error.what();
        }
        co_await pause(std::chrono::milliseconds(100));
    }
    throw server_error("the server is not ready " + std::to_string(limit.count()) +
                       " s after its restart: " + last);
}

net::awaitable<double> chat_client::stream_events(
    std::string path, std::string body, std::function<void(const sse_event&, double)> sink) {
    http_request call{"POST", std::move(path), std::move(body), {}};
    call.headers.emplace_back("Accept", "text/event-stream");
    sse_parser parser;
    const clock::time_point begin = clock::now();
    const auto on_piece = [&](std::string_view bytes, clock::time_point at) {
        const double seconds = seconds_between(begin, at);
        parser.feed(bytes, [&](const sse_event& event) { sink(event, seconds); });
    };
    co_await http_.stream(std::move(call), on_piece);
    co_return seconds_between(begin, clock::now());
}

net::awaitable<void> chat_client::remove(std::string path) {
    http_request call{"DELETE", path, "", {}};
    const http_reply reply = co_await http_.fetch(std::move(call));
    if (reply.status != 204 && reply.status != 200)
        throw server_error("DELETE " + path + ": HTTP " + std::to_string(reply.status) + ": " +
                           reply.body);
}

net::awaitable<void> chat_client::pause(std::chrono::duration<double> time) {
    if (time.count() <= 0) co_return;
    net::steady_timer timer(http_.io(), std::chrono::duration_cast<clock::duration>(time));
    co_await timer.async_wait(net::use_awaitable);
}

void chat_client::check_time() const {
    if (clock::now() >= http_.run_end()) throw time_is_up("--max-seconds are over");
}

}  // namespace semantic::bench
