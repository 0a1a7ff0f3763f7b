#pragma once
// One HTTP request and its response, over libcurl, which nothing else includes. Connections are
// kept and used again. Redirects are not followed.

#include <boost/system/result.hpp>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace semantic::storage {

struct http_request {
    std::string method;  // GET, HEAD, PUT, DELETE
    std::string url;
    std::vector<std::pair<std::string, std::string>> headers;
    std::string_view body;                       // of PUT
    std::uint64_t response_bytes_max = 1 << 20;  // of a body; more is a failure
};

struct http_response {
    int status = 0;
    std::map<std::string, std::string> headers;  // lower-case names; of two the last one
    std::chrono::seconds retry_after{0};         // 0: nothing was asked for
    std::string body;
};

/// There was no whole response.
struct http_failure {
    bool may_succeed_later;
    std::string what;
};

[[noreturn]] void throw_exception_from_error(const http_failure& f,
                                             const boost::source_location& where);

struct http_options {
    std::chrono::milliseconds connect_max{5'000};
    std::chrono::milliseconds total_max{120'000};  // of one request, its response included
    std::chrono::seconds stall_max{20};            // with less than 1,000 bytes a second
    std::string ca_file;                           // empty: the system's
    std::stop_token stop;                          // ends a request that is under way
};

class http_client {
  public:
    explicit http_client(const http_options& options);
    ~http_client();
    http_client(const http_client&) = delete;
    http_client& operator=(const http_client&) = delete;

    /// Blocks. Thread: safe from any; each request that is under way has a connection of its own.
    boost::system::result<http_response, http_failure> exchange(const http_request& request);

  private:
    struct handles;
    const http_options options_;
    const std::unique_ptr<handles> handles_;
};

}  // namespace semantic::storage
