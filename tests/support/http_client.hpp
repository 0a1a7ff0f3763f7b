// SPDX-License-Identifier: Apache-2.0
#pragma once
// An HTTP client that does exactly what the test wants, one system call at a time: half requests,
// silence, abrupt ends. Every read waits at most 5 s and then throws, so that a test cannot hang.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace semantic::tests {

struct http_reply {
    int status = 0;
    std::map<std::string, std::string> fields;  // names in lower case
    std::string body;                           // all chunks joined
};

class http_client {
  public:
    /// Connects. `receive_buffer_bytes`: the size of the socket's buffer, small for a slow reader;
    /// 0: the kernel's choice.
    explicit http_client(std::uint16_t port, int receive_buffer_bytes = 0);
    ~http_client();
    http_client(const http_client&) = delete;
    http_client& operator=(const http_client&) = delete;

    /// Sends all bytes. Returns: false when the server has closed its end.
    bool send(std::string_view bytes);
    /// Reads up to and with `end`. Throws std::runtime_error when the server closes or stays silent
    /// first.
    std::string read_until(std::string_view end);
    std::string read_bytes(std::size_t count);
    /// Reads status and fields.
    http_reply read_head();
    /// Reads a whole reply. `has_body`: false for a reply to HEAD.
    http_reply read_reply(bool has_body = true);
    http_reply request(std::string_view bytes) {
        send(bytes);
        return read_reply();
    }
    /// Reads one chunk of a chunked body; empty for the last.
    std::string read_chunk();
    /// Returns: whether the server closed, with nothing more to read, within 5 s.
    bool is_closed_by_server();
    /// Closes the connection with FIN or, where `abruptly`, with RST.
    void close(bool abruptly = false);
    /// Whether something can be read within this time.
    bool has_input(int wait_ms);

  private:
    /// Waits for more bytes and appends them to buffer_.
    void fill();
    int socket_ = -1;
    std::string buffer_;
};

/// The bytes of a GET request. `more_fields`: whole lines.
std::string get(std::string_view target, std::string_view more_fields = {});
/// The bytes of a POST request with a JSON body. `more_fields`: whole lines.
std::string post(std::string_view target, std::string_view body, std::string_view more_fields = {});

}  // namespace semantic::tests
