// SPDX-License-Identifier: Apache-2.0
#pragma once
// A client that does exactly what the test says, one system call at a time: half requests, silence,
// sudden goodbyes. Every read waits 5 s at most and then throws, so that a test cannot hang.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace semantic::tests {

struct http_reply {
    int status = 0;
    std::map<std::string, std::string> fields;  // names in lower case
    std::string body;                           // chunks put together
};

class http_client {
  public:
    /// `receive_buffer_bytes`: 0 leaves the kernel's choice; small makes a slow reader.
    explicit http_client(std::uint16_t port, int receive_buffer_bytes = 0);
    ~http_client();
    http_client(const http_client&) = delete;
    http_client& operator=(const http_client&) = delete;

    /// Returns: false when the server has closed its end.
    bool send(std::string_view bytes);
    /// Throws std::runtime_error when the server closes or stays silent first.
    std::string read_until(std::string_view end);
    std::string read_bytes(std::size_t count);
    http_reply read_head();
    /// `has_body` is false for the reply to HEAD.
    http_reply read_reply(bool has_body = true);
    http_reply request(std::string_view bytes) {
        send(bytes);
        return read_reply();
    }
    /// One chunk of a chunked body; empty for the last.
    std::string read_chunk();
    /// Returns: whether the server closed, with nothing more to read, within 5 s.
    bool is_closed_by_server();
    /// Sends FIN (or, with `abruptly`, RST).
    void close(bool abruptly = false);
    bool has_input(int wait_ms);

  private:
    void fill();
    int socket_ = -1;
    std::string buffer_;
};

std::string get(std::string_view target, std::string_view more_fields = {});
std::string post(std::string_view target, std::string_view body, std::string_view more_fields = {});

}  // namespace semantic::tests
