// SPDX-License-Identifier: Apache-2.0
#pragma once
// An event stream, or another body whose length is not known before its end, as HTTP: head, then
// one chunk for every write, then the end.
// Owner: the handler's coroutine. Thread: the connection's strand.
// HTTP/1.0 clients get no chunks: the end of the connection ends the stream. HEAD gets the head,
// and nothing is written after it.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/http/client_link.hpp"
#include "server/http/event_sink.hpp"
#include "server/http/request.hpp"

namespace semantic::server {

class sse_writer final : public event_sink {
  public:
    /// Both must outlive the writer.
    sse_writer(client_link& link, const request& to,
               std::string content_type = "text/event-stream; charset=utf-8")
        : link_(link), request_(to), content_type_(std::move(content_type)) {}

    /// Extra header fields; only before the first write().
    void add_field(std::string name, std::string value) override;
    /// Sends `events` as they are, in one system call together with the head if that has not gone
    /// out yet. Returns: false when the client is gone, or wanted the head alone.
    boost::asio::awaitable<bool> write(std::string_view events) override;
    /// Requires: begun. Ends the stream; the connection may then serve the next request.
    boost::asio::awaitable<bool> finish() override;
    bool begun() const noexcept override { return begun_; }

  private:
    client_link& link_;
    const request& request_;
    std::string content_type_;
    std::vector<std::pair<std::string, std::string>> fields_;
    bool begun_ = false;
};

/// One HTTP/1.1 chunk. Empty for empty `data`: a chunk of no bytes would end the body.
std::string http_chunk(std::string_view data);

}  // namespace semantic::server
