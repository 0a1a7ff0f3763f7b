// SPDX-License-Identifier: Apache-2.0
#pragma once
// HTTP over loopback, one connection a request: whole replies, and replies that arrive piece by
// piece. Everything runs on the one thread of the io_context and sleeps while nothing arrives, so
// that the server keeps the processor.
// Errors of every coroutine here: server_error that says what failed at which address; time_is_up
// when the run's end comes first. A coroutine that is left half-way leaves a closed socket.

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "perf/bench/client/url.hpp"

namespace semantic::bench {

using clock = std::chrono::steady_clock;
using header_list = std::vector<std::pair<std::string, std::string>>;

struct http_request {
    std::string method;
    std::string path;  // below the base path
    std::string body;
    header_list headers;  // added to those of the client
};

struct http_reply {
    unsigned status = 0;
    std::string body;
};

class http_client {
  public:
    /// Gets each piece of a streamed body with the time of its arrival.
    using piece_sink = std::function<void(std::string_view, clock::time_point)>;

    /// `headers`: sent with every request. `request_limit`: for one request. No request runs beyond
    /// `run_end`.
    http_client(boost::asio::io_context& io, server_url url, header_list headers,
                std::chrono::seconds request_limit, clock::time_point run_end);

    /// Sends a request. Returns: the reply, whatever its status.
    boost::asio::awaitable<http_reply> fetch(http_request request);

    /// Sends a request and calls `sink` with the body of a 200 reply as it arrives. Returns: when
    /// the request was sent. Errors: also for any other status, with the reply's body.
    boost::asio::awaitable<clock::time_point> stream(http_request request, piece_sink sink);

    clock::time_point run_end() const noexcept { return run_end_; }
    boost::asio::io_context& io() noexcept { return io_; }

  private:
    boost::asio::io_context& io_;
    server_url url_;
    header_list headers_;
    std::chrono::seconds request_limit_;
    clock::time_point run_end_;
};

}  // namespace semantic::bench
