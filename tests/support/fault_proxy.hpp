// SPDX-License-Identifier: Apache-2.0
#pragma once
// A proxy between an HTTP client and a server of this machine that makes trouble on request. Every
// connection carries one request, to which the trouble applies that was requested first. Thread:
// any.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace semantic::tests {

enum class trouble {
    none,
    answer,           // `text`, a whole response, is sent; the server gets nothing
    cut_before,       // the connection closes; the server gets nothing
    twice,            // the server gets the request twice; its second answer is sent
    cut_after,        // the server answers, and the connection closes without the response
    truncate_answer,  // the last byte of the response is missing
    flip_answer,      // a bit of the last byte of the response is flipped
    flip_upload,      // a bit of the last byte of the request's body is flipped
    drop_header,      // the server does not see the header whose lower-case name is `text`
    delay,            // the server gets the request 400 ms later
};

class fault_proxy {
  public:
    /// `server_port`: 0 where no request is passed on.
    explicit fault_proxy(std::uint16_t server_port = 0);
    ~fault_proxy();
    fault_proxy(const fault_proxy&) = delete;
    fault_proxy& operator=(const fault_proxy&) = delete;

    std::uint16_t port() const { return port_; }
    /// Requests trouble for each of the next `times` requests, after what was requested before.
    void order(trouble kind, std::string text = {}, int times = 1);
    /// Requests trouble for every request that no order() is left for.
    void order_always(trouble kind, std::string text = {});
    /// The heads of the requests so far.
    std::vector<std::string> requests() const;

  private:
    struct ordered {
        trouble kind = trouble::none;
        std::string text;
    };
    void accept_all();
    void serve(int client);
    /// The trouble for the next request.
    ordered take();
    /// Sends the request to the server. Returns: everything that it sent until it closed.
    std::string ask_server(const std::string& request) const;

    const std::uint16_t server_port_;
    std::uint16_t port_ = 0;
    int listener_ = -1;
    mutable std::mutex mutex_;  // guards what follows
    std::deque<ordered> orders_;
    ordered always_;
    std::vector<std::string> requests_;
    std::vector<std::jthread> serving_;
    std::jthread accepting_;
};

/// A whole response with this status, headers and body.
std::string http_answer(int status, const std::string& more_headers = {},
                        const std::string& body = {});

}  // namespace semantic::tests
