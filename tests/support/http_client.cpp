// SPDX-License-Identifier: Apache-2.0
#include "tests/support/http_client.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <cctype>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdexcept>
#include <sys/socket.h>
#include <unistd.h>

namespace semantic::tests {

namespace {

constexpr int patience_ms = 5000;

}  // namespace

http_client::http_client(std::uint16_t port, int receive_buffer_bytes) {
    socket_ = ::socket(AF_INET, SOCK_STREAM, 0);
    if (receive_buffer_bytes > 0)
        ::setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_buffer_bytes,
                     sizeof receive_buffer_bytes);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
        throw std::runtime_error("cannot connect to port " + std::to_string(port));
    int enabled = 1;
    ::setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &enabled, sizeof enabled);
}

http_client::~http_client() { close(); }

bool http_client::send(std::string_view bytes) {
    while (!bytes.empty()) {
        ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (sent <= 0) return false;
        bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
}

bool http_client::has_input(int wait_ms) {
    pollfd waiting{socket_, POLLIN, 0};
    return !buffer_.empty() || ::poll(&waiting, 1, wait_ms) > 0;
}

void http_client::fill() {
    pollfd waiting{socket_, POLLIN, 0};
    if (::poll(&waiting, 1, patience_ms) <= 0)
        throw std::runtime_error("the server stayed silent; so far: " + buffer_);
    char bytes[65536];
    ssize_t count = ::recv(socket_, bytes, sizeof bytes, 0);
    if (count <= 0) throw std::runtime_error("the server closed; so far: " + buffer_);
    buffer_.append(bytes, static_cast<std::size_t>(count));
}

std::string http_client::read_until(std::string_view end) {
    std::size_t at = 0;
    while ((at = buffer_.find(end)) == std::string::npos) fill();
    return read_bytes(at + end.size());
}

std::string http_client::read_bytes(std::size_t count) {
    while (buffer_.size() < count) fill();
    std::string taken = buffer_.substr(0, count);
    buffer_.erase(0, count);
    return taken;
}

http_reply http_client::read_head() {
    std::string head = read_until("\r\n\r\n");
    http_reply reply;
    reply.status = std::stoi(head.substr(head.find(' ') + 1));
    std::size_t at = head.find("\r\n") + 2;
    while (at + 2 < head.size()) {
        std::size_t end = head.find("\r\n", at);
        std::size_t colon = head.find(": ", at);
        std::string name = head.substr(at, colon - at);
        for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
        reply.fields[name] = head.substr(colon + 2, end - colon - 2);
        at = end + 2;
    }
    return reply;
}

http_reply http_client::read_reply(bool has_body) {
    http_reply reply = read_head();
    if (!has_body) return reply;
    if (reply.fields.contains("content-length")) {
        reply.body = read_bytes(std::stoul(reply.fields["content-length"]));
    } else if (reply.fields.contains("transfer-encoding")) {
        for (std::string part = read_chunk(); !part.empty(); part = read_chunk())
            reply.body += part;
    }
    return reply;
}

std::string http_client::read_chunk() {
    std::size_t size = std::stoul(read_until("\r\n"), nullptr, 16);
    std::string data = read_bytes(size + 2);
    return data.substr(0, size);
}

bool http_client::is_closed_by_server() {
    if (!buffer_.empty()) return false;
    pollfd waiting{socket_, POLLIN, 0};
    if (::poll(&waiting, 1, patience_ms) <= 0) return false;
    char byte = 0;
    return ::recv(socket_, &byte, 1, 0) <= 0;
}

void http_client::close(bool abruptly) {
    if (socket_ < 0) return;
    if (abruptly) {
        linger now{1, 0};
        ::setsockopt(socket_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    }
    ::close(socket_);
    socket_ = -1;
}

std::string get(std::string_view target, std::string_view more_fields) {
    return std::string("GET ")
        .append(target)
        .append(" HTTP/1.1\r\nhost: localhost\r\n")
        .append(more_fields)
        .append("\r\n");
}

std::string post(std::string_view target, std::string_view body, std::string_view more_fields) {
    return std::string("POST ")
        .append(target)
        .append(" HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n")
        .append(more_fields)
        .append("content-length: ")
        .append(std::to_string(body.size()))
        .append("\r\n\r\n")
        .append(body);
}

}  // namespace semantic::tests
