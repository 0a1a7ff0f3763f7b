// SPDX-License-Identifier: Apache-2.0
#pragma once
// One HTTP request and its response, over libcurl, which nothing else includes. Connections are
// kept and used again. Redirects are not followed: a caller that does so decides which of them get
// its credentials.

#include <boost/system/result.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace semantic::storage {

struct http_response {
    int status = 0;
    std::map<std::string, std::string> headers;  // lower-case names; of two the last one
    std::chrono::seconds retry_after{0};         // 0: nothing was asked for
    std::string body;
};

struct http_request {
    std::string method;  // GET, HEAD, PUT, DELETE
    std::string url;
    std::vector<std::pair<std::string, std::string>> headers;
    std::string_view body;                       // of PUT
    std::uint64_t response_bytes_max = 1 << 20;  // of a body that is kept; more is a failure
    /// If set, receives the body of a response of status 200 or 206 piece by piece, together with
    /// status and headers; `body` of the response stays empty. Returning false ends the transfer as
    /// a failure.
    std::function<bool(const http_response& head, std::string_view bytes)> receive{};
};

/// There was no whole response.
struct http_failure {
    bool may_succeed_later;
    std::string message;
};

[[noreturn]] void throw_exception_from_error(const http_failure& f,
                                             const boost::source_location& where);

struct http_options {
    std::chrono::milliseconds connect_max{5'000};
    std::chrono::milliseconds total_max{120'000};  // of one request with its response; 0: no bound
    std::chrono::seconds stall_max{20};            // with less than 1,000 bytes a second
    std::string ca_file;                           // empty: the system's
    std::stop_token stop;                          // ends a request that is under way
};

/// Returns: `reference`, which may be relative to `base`, as a whole URL; empty where it is none,
/// or neither http nor https.
std::string absolute_url(const std::string& base, const std::string& reference);

/// Returns: scheme, host and port, "https://example.org:443", which identify the server of a
/// request; empty where `url` is not a URL.
std::string url_origin(const std::string& url);

class http_client {
  public:
    explicit http_client(const http_options& options);
    ~http_client();
    http_client(const http_client&) = delete;
    http_client& operator=(const http_client&) = delete;

    /// Blocks. Sends a request and reads its response, whatever its status. Errors: there was no
    /// whole response. Thread: any; each request under way has a connection of its own.
    boost::system::result<http_response, http_failure> exchange(const http_request& request);

  private:
    struct handles;
    const http_options options_;
    const std::unique_ptr<handles> handles_;
};

}  // namespace semantic::storage
