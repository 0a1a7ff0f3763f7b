// SPDX-License-Identifier: Apache-2.0
#include "server/http/sse_writer.hpp"

#include <cstdio>

#include "server/http/response.hpp"

namespace semantic::server {

std::string http_chunk(std::string_view data) {
    if (data.empty()) return {};
    char size[20];
    std::snprintf(size, sizeof size, "%zx\r\n", data.size());
    std::string chunk(size);
    return chunk.append(data).append("\r\n");
}

void sse_writer::add_field(std::string name, std::string value) {
    fields_.emplace_back(std::move(name), std::move(value));
}

boost::asio::awaitable<bool> sse_writer::write(std::string_view events) {
    const bool is_head = request_.method == "HEAD";
    std::string bytes;
    // HEAD gets the headers alone: false ends the answer.
    if (begun_ && is_head) co_return false;
    if (!begun_) {
        begun_ = true;
        response head;
        head.content_type = content_type_;
        head.fields = fields_;
        head.fields.emplace_back("cache-control", "no-store");
        head.fields.emplace_back("x-accel-buffering",
                                 "no");  // a proxy in front must not collect tokens
        bool chunked = !request_.http_1_0;
        bytes = response_head(request_, head, chunked ? "transfer-encoding: chunked" : "",
                              chunked && link_.keep_alive());
        link_.streamed(head.status);
    }
    if (is_head) {
        co_await link_.write(std::move(bytes));
        co_return false;
    }
    bytes += request_.http_1_0 ? std::string(events) : http_chunk(events);
    if (bytes.empty()) co_return !link_.is_gone();
    co_return co_await link_.write(std::move(bytes));
}

boost::asio::awaitable<bool> sse_writer::finish() {
    if (request_.http_1_0 || request_.method == "HEAD") co_return !link_.is_gone();
    co_return co_await link_.write("0\r\n\r\n");
}

}  // namespace semantic::server
