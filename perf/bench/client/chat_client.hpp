// SPDX-License-Identifier: Apache-2.0
#pragma once
// A client of one server through one API: gets answers with their times, token counts and memory.
// Thread: that of the io_context. Errors: those of http_client.

#include <boost/asio/awaitable.hpp>
#include <boost/json/object.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "perf/bench/client/dialect.hpp"
#include "perf/bench/client/http_client.hpp"
#include "perf/bench/client/sse_parser.hpp"
#include "perf/bench/client/url.hpp"

namespace semantic::bench {

/// Which server is asked, and how.
struct client_settings {
    server_url url;
    api dialect = api::anthropic;
    std::string model;  // empty: the first that the server lists
    std::string api_key;
    boost::json::object extra_body;
    std::chrono::seconds run_limit{600};
    std::chrono::seconds request_limit{300};
    std::int64_t context_max = 0;  // tokens; 0: what the server says
};

/// A request that is sent some time after the others of its group.
struct timed_request {
    generation_request request;
    std::chrono::duration<double> delay{0};  // after the others' common start
};

class chat_client {
  public:
    chat_client(boost::asio::io_context& io, const client_settings& settings,
                clock::time_point run_start);

    /// Asks the server for the model's name and its longest context. Errors: also when the server
    /// lists no model and none was named.
    boost::asio::awaitable<void> open();
    const std::string& model() const noexcept { return model_; }
    /// The longest context of the model, in tokens; 0: unknown.
    std::int64_t context_max() const noexcept { return context_max_; }

    /// Sends the request and reads its streamed answer to the end.
    boost::asio::awaitable<generation> generate(generation_request request);
    /// Sends all requests, each after its delay, and waits for all answers. Returns: them in the
    /// order of the requests. Errors: the first that any met, once all have ended.
    boost::asio::awaitable<std::vector<generation>> generate_all(
        std::vector<timed_request> requests);

    /// Counts the tokens of a conversation on the server; nothing where it has no such route.
    boost::asio::awaitable<std::optional<std::int64_t>> count_tokens(std::vector<message> messages);
    /// Moves the session's memory out of RAM. Returns: whether the server did so.
    boost::asio::awaitable<bool> evict(std::string session);
    /// The text of /metrics; nothing where the server has none.
    boost::asio::awaitable<std::optional<std::string>> metrics();
    /// Waits until the server lists its models again. Errors: server_error after `limit`.
    boost::asio::awaitable<void> wait_until_ready(std::chrono::seconds limit);
    /// Posts `body` and calls `sink` with each event of the reply and its time since the request
    /// was sent, in seconds. Returns: the time to the end, in seconds. Errors: sse_error, and those
    /// of `sink`.
    boost::asio::awaitable<double> stream_events(
        std::string path, std::string body, std::function<void(const sse_event&, double)> sink);
    /// Sends a DELETE. Errors: also when the server refuses it.
    boost::asio::awaitable<void> remove(std::string path);
    /// Waits for this time.
    boost::asio::awaitable<void> pause(std::chrono::duration<double> time);

    /// Throws time_is_up when the run's end has come.
    void check_time() const;

  private:
    http_client http_;
    api dialect_;
    boost::json::object extra_body_;
    std::string model_;
    std::int64_t context_max_;
    clock::time_point run_start_;
};

}  // namespace semantic::bench
